#include "tests/bench/dnnl_contestants.h"

#include <random>
#include <unordered_map>

#include "gpu/onednn/described.h"

namespace es::bench {
namespace {

using dnnl::memory;
using gpu::described;
using gpu::described_gradient;
using Tag = memory::format_tag;
constexpr auto kFloat = memory::data_type::f32;
#if DNNL_VERSION_MAJOR < 3
using PoolForward = dnnl::pooling_v2_forward;
using PoolBackward = dnnl::pooling_v2_backward;
#else
using PoolForward = dnnl::pooling_forward;
using PoolBackward = dnnl::pooling_backward;
#endif

dnnl::engine& engine() {
  static dnnl::engine value(dnnl::engine::kind::cpu, 0);
  return value;
}

memory random_memory(const memory::desc& desc) {
  memory m(desc, engine());
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  auto* data = static_cast<float*>(m.get_data_handle());
  for (std::size_t i = 0; i < desc.get_size() / sizeof(float); ++i) data[i] = normal(random);
  return m;
}

std::function<void()> call(dnnl::primitive primitive, std::unordered_map<int, memory> args) {
  return [=, stream = dnnl::stream(engine())]() mutable {
    primitive.execute(stream, args);
    stream.wait();
  };
}

struct ConvDescs {
  memory::desc x, w, y;
  memory::dims strides, pad_low, pad_high;
};

ConvDescs conv_descs(const gpu::ConvShape& s, DnnlLayout layout) {
  const auto tag = layout == DnnlLayout::kNhwc ? Tag::nhwc : Tag::any;
  const auto pad_after = [&](std::int64_t in, std::int64_t out, std::int64_t kernel) {
    return (out - 1) * s.stride + kernel - in - s.pad;
  };
  const memory::dims weights =
      s.groups == 1 ? memory::dims{s.oc, s.c, s.kh, s.kw}
                    : memory::dims{s.groups, s.oc / s.groups, s.c / s.groups, s.kh, s.kw};
  return {memory::desc({s.n, s.c, s.h, s.w}, kFloat, tag),
          memory::desc(weights, kFloat, Tag::any),
          memory::desc({s.n, s.oc, s.oh(), s.ow()}, kFloat, tag),
          {s.stride, s.stride},
          {s.pad, s.pad},
          {pad_after(s.h, s.oh(), s.kh), pad_after(s.w, s.ow(), s.kw)}};
}

std::function<void()> make_conv(const gpu::ConvShape& s, ConvPass pass, DnnlLayout layout) {
  const auto direct = dnnl::algorithm::convolution_direct;
  const ConvDescs d = conv_descs(s, layout);
  using Forward = dnnl::convolution_forward;
  const auto forward = described<Forward>(engine(), {}, dnnl::prop_kind::forward_training, direct,
                                          d.x, d.w, d.y, d.strides, d.pad_low, d.pad_high);
  if (pass == ConvPass::kForward) {
    return call(Forward(forward), {{DNNL_ARG_SRC, random_memory(forward.src_desc())},
                                   {DNNL_ARG_WEIGHTS, random_memory(forward.weights_desc())},
                                   {DNNL_ARG_DST, random_memory(forward.dst_desc())}});
  }
  if (pass == ConvPass::kDataGradient) {
    using Backward = dnnl::convolution_backward_data;
    const auto backward = described_gradient<Backward>(engine(), {}, forward, direct, d.x, d.w, d.y,
                                                       d.strides, d.pad_low, d.pad_high);
    return call(Backward(backward), {{DNNL_ARG_DIFF_SRC, random_memory(backward.diff_src_desc())},
                                     {DNNL_ARG_WEIGHTS, random_memory(backward.weights_desc())},
                                     {DNNL_ARG_DIFF_DST, random_memory(backward.diff_dst_desc())}});
  }
  using Backward = dnnl::convolution_backward_weights;
  const auto backward = described_gradient<Backward>(engine(), {}, forward, direct, d.x, d.w, d.y,
                                                     d.strides, d.pad_low, d.pad_high);
  return call(Backward(backward),
              {{DNNL_ARG_SRC, random_memory(backward.src_desc())},
               {DNNL_ARG_DIFF_WEIGHTS, random_memory(backward.diff_weights_desc())},
               {DNNL_ARG_DIFF_DST, random_memory(backward.diff_dst_desc())}});
}

using NormForward = dnnl::batch_normalization_forward;
using NormBackward = dnnl::batch_normalization_backward;
constexpr float kEpsilon = 1e-5f;

// Version 3 wants the layout of each tensor, version 2 one for all.
NormForward::primitive_desc norm_forward(const memory::desc& data,
                                         dnnl::normalization_flags flags) {
  const auto kind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR < 3
  return described<NormForward>(engine(), {}, kind, data, kEpsilon, flags);
#else
  return described<NormForward>(engine(), {}, kind, data, data, kEpsilon, flags);
#endif
}

NormBackward::primitive_desc norm_backward(const NormForward::primitive_desc& forward,
                                           const memory::desc& data,
                                           dnnl::normalization_flags flags) {
  const auto kind = dnnl::prop_kind::backward;
#if DNNL_VERSION_MAJOR < 3
  return described_gradient<NormBackward>(engine(), {}, forward, kind, data, data, kEpsilon, flags);
#else
  return described_gradient<NormBackward>(engine(), {}, forward, kind, data, data, data, kEpsilon,
                                          flags);
#endif
}

}  // namespace

std::function<void()> dnnl_conv(const gpu::ConvShape& s, ConvPass pass, DnnlLayout layout) {
  try {
    return make_conv(s, pass, layout);
  } catch (const dnnl::error&) {
    return {};
  }
}

std::function<void()> dnnl_gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool b_transposed) {
  const memory::desc a({m, k}, kFloat, Tag::ab);
  const memory::desc b({k, n}, kFloat, b_transposed ? Tag::ba : Tag::ab);
  const memory::desc c({m, n}, kFloat, Tag::ab);
  const auto desc = described<dnnl::matmul>(engine(), {}, a, b, c);
  return call(dnnl::matmul(desc), {{DNNL_ARG_SRC, random_memory(a)},
                                   {DNNL_ARG_WEIGHTS, random_memory(b)},
                                   {DNNL_ARG_DST, random_memory(c)}});
}

std::function<void()> dnnl_batch_norm(std::int64_t rows, std::int64_t c, bool backward) {
  using Flags = dnnl::normalization_flags;
  const auto flags = Flags::use_scale | Flags::use_shift | Flags::fuse_norm_relu;
  const memory::desc data({1, c, rows, 1}, kFloat, Tag::nhwc);
  const memory::desc row({c}, kFloat, Tag::a);
  const auto forward = norm_forward(data, flags);
  std::unordered_map<int, memory> args{
      {DNNL_ARG_SRC, random_memory(data)},
      {DNNL_ARG_DST, random_memory(data)},
      {DNNL_ARG_SCALE, random_memory(row)},
      {DNNL_ARG_SHIFT, random_memory(row)},
      {DNNL_ARG_MEAN, random_memory(forward.mean_desc())},
      {DNNL_ARG_VARIANCE, random_memory(forward.variance_desc())},
      {DNNL_ARG_WORKSPACE, memory(forward.workspace_desc(), engine())}};
  const auto run_forward = call(NormForward(forward), args);
  if (!backward) return run_forward;
  run_forward();  // This fills the statistics and the ReLU mask that the backward pass reads.
  const auto desc = norm_backward(forward, data, flags);
  args[DNNL_ARG_DIFF_DST] = random_memory(data);
  args[DNNL_ARG_DIFF_SRC] = random_memory(data);
  args[DNNL_ARG_DIFF_SCALE] = random_memory(row);
  args[DNNL_ARG_DIFF_SHIFT] = random_memory(row);
  return call(NormBackward(desc), args);
}

std::function<void()> dnnl_max_pool(const gpu::PoolShape& s, bool backward) {
  const auto max = dnnl::algorithm::pooling_max;
  const memory::desc x({s.n, s.c, s.h, s.w}, kFloat, Tag::nhwc);
  const memory::desc y({s.n, s.c, s.oh(), s.ow()}, kFloat, Tag::nhwc);
  const memory::dims strides{s.stride_h, s.stride_w}, kernel{s.kh, s.kw}, low{s.pad_h, s.pad_w};
  const memory::dims high{(s.oh() - 1) * s.stride_h + s.kh - s.h - s.pad_h,
                          (s.ow() - 1) * s.stride_w + s.kw - s.w - s.pad_w};
  const memory::dims no_gaps{0, 0};
  const auto forward = described<PoolForward>(engine(), {}, dnnl::prop_kind::forward_training, max,
                                              x, y, strides, kernel, no_gaps, low, high);
  std::unordered_map<int, memory> args{
      {DNNL_ARG_SRC, random_memory(x)},
      {DNNL_ARG_DST, random_memory(y)},
      {DNNL_ARG_WORKSPACE, memory(forward.workspace_desc(), engine())}};
  const auto run_forward = call(PoolForward(forward), args);
  if (!backward) return run_forward;
  run_forward();  // This fills the positions of the maxima.
  const auto desc = described_gradient<PoolBackward>(engine(), {}, forward, max, x, y, strides,
                                                     kernel, no_gaps, low, high);
  args[DNNL_ARG_DIFF_DST] = random_memory(y);
  args[DNNL_ARG_DIFF_SRC] = random_memory(x);
  return call(PoolBackward(desc), args);
}

}  // namespace es::bench
