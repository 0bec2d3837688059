#include "tests/bench/dnnl_contestants.h"

#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <unordered_map>

namespace es::bench {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto kFloat = memory::data_type::f32;

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
  const Forward::primitive_desc forward(
      Forward::desc(dnnl::prop_kind::forward_training, direct, d.x, d.w, d.y, d.strides, d.pad_low,
                    d.pad_high),
      engine());
  if (pass == ConvPass::kForward) {
    return call(Forward(forward), {{DNNL_ARG_SRC, random_memory(forward.src_desc())},
                                   {DNNL_ARG_WEIGHTS, random_memory(forward.weights_desc())},
                                   {DNNL_ARG_DST, random_memory(forward.dst_desc())}});
  }
  if (pass == ConvPass::kDataGradient) {
    using Backward = dnnl::convolution_backward_data;
    const Backward::primitive_desc backward(
        Backward::desc(direct, d.x, d.w, d.y, d.strides, d.pad_low, d.pad_high), engine(), forward);
    return call(Backward(backward), {{DNNL_ARG_DIFF_SRC, random_memory(backward.diff_src_desc())},
                                     {DNNL_ARG_WEIGHTS, random_memory(backward.weights_desc())},
                                     {DNNL_ARG_DIFF_DST, random_memory(backward.diff_dst_desc())}});
  }
  using Backward = dnnl::convolution_backward_weights;
  const Backward::primitive_desc backward(
      Backward::desc(direct, d.x, d.w, d.y, d.strides, d.pad_low, d.pad_high), engine(), forward);
  return call(Backward(backward),
              {{DNNL_ARG_SRC, random_memory(backward.src_desc())},
               {DNNL_ARG_DIFF_WEIGHTS, random_memory(backward.diff_weights_desc())},
               {DNNL_ARG_DIFF_DST, random_memory(backward.diff_dst_desc())}});
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
  const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c), engine());
  return call(dnnl::matmul(desc), {{DNNL_ARG_SRC, random_memory(a)},
                                   {DNNL_ARG_WEIGHTS, random_memory(b)},
                                   {DNNL_ARG_DST, random_memory(c)}});
}

std::function<void()> dnnl_batch_norm(std::int64_t rows, std::int64_t c, bool backward) {
  const auto flags =
      dnnl::normalization_flags::use_scale_shift | dnnl::normalization_flags::fuse_norm_relu;
  const memory::desc data({1, c, rows, 1}, kFloat, Tag::nhwc);
  using Forward = dnnl::batch_normalization_forward;
  const Forward::primitive_desc forward(
      Forward::desc(dnnl::prop_kind::forward_training, data, 1e-5f, flags), engine());
  std::unordered_map<int, memory> args{
      {DNNL_ARG_SRC, random_memory(data)},
      {DNNL_ARG_DST, random_memory(data)},
      {DNNL_ARG_SCALE_SHIFT, random_memory(forward.weights_desc())},
      {DNNL_ARG_MEAN, random_memory(forward.mean_desc())},
      {DNNL_ARG_VARIANCE, random_memory(forward.variance_desc())},
      {DNNL_ARG_WORKSPACE, memory(forward.workspace_desc(), engine())}};
  const auto run_forward = call(Forward(forward), args);
  if (!backward) return run_forward;
  run_forward();  // This fills the statistics and the ReLU mask that the backward pass reads.
  using Backward = dnnl::batch_normalization_backward;
  const Backward::primitive_desc desc(
      Backward::desc(dnnl::prop_kind::backward, data, data, 1e-5f, flags), engine(), forward);
  args[DNNL_ARG_DIFF_DST] = random_memory(data);
  args[DNNL_ARG_DIFF_SRC] = random_memory(data);
  args[DNNL_ARG_DIFF_SCALE_SHIFT] = random_memory(desc.diff_weights_desc());
  return call(Backward(desc), args);
}

std::function<void()> dnnl_max_pool(const gpu::PoolShape& s, bool backward) {
  const auto max = dnnl::algorithm::pooling_max;
  const memory::desc x({s.n, s.c, s.h, s.w}, kFloat, Tag::nhwc);
  const memory::desc y({s.n, s.c, s.oh(), s.ow()}, kFloat, Tag::nhwc);
  const memory::dims strides{s.stride_h, s.stride_w}, kernel{s.kh, s.kw}, low{s.pad_h, s.pad_w};
  const memory::dims high{(s.oh() - 1) * s.stride_h + s.kh - s.h - s.pad_h,
                          (s.ow() - 1) * s.stride_w + s.kw - s.w - s.pad_w};
  using Forward = dnnl::pooling_forward;
  const Forward::primitive_desc forward(
      Forward::desc(dnnl::prop_kind::forward_training, max, x, y, strides, kernel, low, high),
      engine());
  std::unordered_map<int, memory> args{
      {DNNL_ARG_SRC, random_memory(x)},
      {DNNL_ARG_DST, random_memory(y)},
      {DNNL_ARG_WORKSPACE, memory(forward.workspace_desc(), engine())}};
  const auto run_forward = call(Forward(forward), args);
  if (!backward) return run_forward;
  run_forward();  // This fills the positions of the maxima.
  using Backward = dnnl::pooling_backward;
  const Backward::primitive_desc desc(Backward::desc(max, x, y, strides, kernel, low, high),
                                      engine(), forward);
  args[DNNL_ARG_DIFF_DST] = random_memory(y);
  args[DNNL_ARG_DIFF_SRC] = random_memory(x);
  return call(Backward(desc), args);
}

}  // namespace es::bench
