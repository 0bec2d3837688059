#include "gpu/onednn/onednn.h"

#include <omp.h>

#include <mutex>
#include <optional>
#include <unordered_map>

#include "gpu/onednn/described.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

using dnnl::memory;
using Arguments = std::unordered_map<int, memory>;
constexpr auto kF32 = memory::data_type::f32;

dnnl::engine& cpu_engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// Limits the library to one thread. It divides sums among as many threads as the calling thread may
// use, both when it creates a kernel and when it runs one, and no bit may depend on their number.
void use_one_thread() {
  omp_set_num_threads(1);
}

Error refusal(const std::string& what, const dnnl::error& error) {
  return failure("oneDNN: " + what + ": " + error.what());
}

// One operand of a kernel: the caller's memory, and a copy in the library's layout if the library
// prefers another layout.
class Operand {
 public:
  Operand(int argument, const memory::desc& ours, const memory::desc& theirs)
      : argument_(argument), user_(ours, cpu_engine(), nullptr) {
    // Without a difference the kernel works directly in the memory of the caller.
    if (ours == theirs) return;
    copy_.emplace(theirs, cpu_engine());
    in_ = dnnl::reorder(user_, *copy_);
    out_ = dnnl::reorder(*copy_, user_);
  }

  int argument() const { return argument_; }
  const memory& used() const { return copy_ ? *copy_ : user_; }
  void bind(const float* address) { user_.set_data_handle(const_cast<float*>(address)); }
  void copy_in(dnnl::stream& stream) {
    if (copy_) in_.execute(stream, user_, *copy_);
  }
  void copy_out(dnnl::stream& stream) {
    if (copy_) out_.execute(stream, *copy_, user_);
  }

 private:
  int argument_;
  memory user_;
  std::optional<memory> copy_;
  dnnl::reorder in_, out_;
};

class PrimitiveKernel final : public OnednnKernel {
 public:
  PrimitiveKernel(dnnl::primitive primitive, std::string algorithm, Operand a, Operand b,
                  std::optional<Operand> bias, Operand out, const memory::desc& scratchpad)
      : primitive_(std::move(primitive)),
        algorithm_(std::move(algorithm)),
        a_(std::move(a)),
        b_(std::move(b)),
        bias_(std::move(bias)),
        out_(std::move(out)),
        stream_(cpu_engine()),
        arguments_{{a_.argument(), a_.used()},
                   {b_.argument(), b_.used()},
                   {out_.argument(), out_.used()},
                   {DNNL_ARG_SCRATCHPAD, memory(scratchpad, cpu_engine())}} {
    if (bias_) arguments_.insert({bias_->argument(), bias_->used()});
  }

  std::string algorithm() const override { return algorithm_; }

  Status run(const float* a, const float* b, const float* bias, float* out) override {
    use_one_thread();
    try {
      execute(a, b, bias, out);
    } catch (const dnnl::error& error) {
      return refusal(algorithm_, error);
    }
    return {};
  }

 private:
  void execute(const float* a, const float* b, const float* bias, float* out) {
    a_.bind(a);
    b_.bind(b);
    out_.bind(out);
    if (bias_) bias_->bind(bias);
    a_.copy_in(stream_);
    b_.copy_in(stream_);
    primitive_.execute(stream_, arguments_);
    // The bias is a vector and has one layout only, so it is never copied.
    out_.copy_out(stream_);
    stream_.wait();
  }

  dnnl::primitive primitive_;
  std::string algorithm_;
  Operand a_, b_;
  std::optional<Operand> bias_;
  Operand out_;
  dnnl::stream stream_;
  // The operands' memory objects are shared, so bind() changes the arguments too.
  Arguments arguments_;
};

// The tensors of a convolution in the layouts of this program. The library may choose another
// layout only for the weights (w_any).
struct ConvLayout {
  explicit ConvLayout(const ConvShape& s)
      : x({s.n, s.c, s.h, s.w}, kF32, memory::format_tag::nhwc),
        y({s.n, s.oc, s.oh(), s.ow()}, kF32, memory::format_tag::nhwc),
        bias({s.oc}, kF32, memory::format_tag::a),
        strides{s.stride, s.stride},
        before{s.pad, s.pad},
        // The library wants the padding behind the last pixel. It follows from the size of the
        // output and may be negative if the stride leaves pixels out.
        after{(s.oh() - 1) * s.stride + s.kh - s.h - s.pad,
              (s.ow() - 1) * s.stride + s.kw - s.w - s.pad} {
    const memory::dims dims =
        s.groups == 1 ? memory::dims{s.oc, s.c, s.kh, s.kw}
                      : memory::dims{s.groups, s.oc / s.groups, s.c / s.groups, s.kh, s.kw};
    w = memory::desc(dims, kF32,
                     s.groups == 1 ? memory::format_tag::ohwi : memory::format_tag::gohwi);
    w_any = memory::desc(dims, kF32, memory::format_tag::any);
  }
  memory::desc x, y, bias, w, w_any;
  memory::dims strides, before, after;
};

dnnl::primitive_attr caller_owned_scratchpad() {
  dnnl::primitive_attr attr;
  // The scratch memory belongs to the kernel object. So a run allocates none, and kernels do not
  // share it.
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

dnnl::convolution_forward::primitive_desc forward_desc(const ConvLayout& l, bool bias) {
  using Forward = dnnl::convolution_forward;
  const auto kind = dnnl::prop_kind::forward_training;
  const auto direct = dnnl::algorithm::convolution_direct;
  const auto attr = caller_owned_scratchpad();
  if (!bias)
    return described<Forward>(cpu_engine(), attr, kind, direct, l.x, l.w_any, l.y, l.strides,
                              l.before, l.after);
  return described<Forward>(cpu_engine(), attr, kind, direct, l.x, l.w_any, l.bias, l.y, l.strides,
                            l.before, l.after);
}

template <class Backward>
typename Backward::primitive_desc gradient_desc(const ConvLayout& l) {
  return described_gradient<Backward>(cpu_engine(), caller_owned_scratchpad(),
                                      forward_desc(l, false), dnnl::algorithm::convolution_direct,
                                      l.x, l.w_any, l.y, l.strides, l.before, l.after);
}

std::unique_ptr<OnednnKernel> make_forward(const ConvLayout& l, bool bias) {
  const auto desc = forward_desc(l, bias);
  std::optional<Operand> bias_operand;
  if (bias) bias_operand.emplace(DNNL_ARG_BIAS, l.bias, l.bias);
  return std::make_unique<PrimitiveKernel>(
      dnnl::convolution_forward(desc), desc.impl_info_str(),
      Operand(DNNL_ARG_SRC, l.x, desc.src_desc()),
      Operand(DNNL_ARG_WEIGHTS, l.w, desc.weights_desc()), bias_operand,
      Operand(DNNL_ARG_DST, l.y, desc.dst_desc()), desc.scratchpad_desc());
}

std::unique_ptr<OnednnKernel> make_data_gradient(const ConvLayout& l) {
  using Backward = dnnl::convolution_backward_data;
  const auto desc = gradient_desc<Backward>(l);
  return std::make_unique<PrimitiveKernel>(
      Backward(desc), desc.impl_info_str(), Operand(DNNL_ARG_DIFF_DST, l.y, desc.diff_dst_desc()),
      Operand(DNNL_ARG_WEIGHTS, l.w, desc.weights_desc()), std::nullopt,
      Operand(DNNL_ARG_DIFF_SRC, l.x, desc.diff_src_desc()), desc.scratchpad_desc());
}

std::unique_ptr<OnednnKernel> make_weight_gradient(const ConvLayout& l) {
  using Backward = dnnl::convolution_backward_weights;
  const auto desc = gradient_desc<Backward>(l);
  return std::make_unique<PrimitiveKernel>(
      Backward(desc), desc.impl_info_str(), Operand(DNNL_ARG_SRC, l.x, desc.src_desc()),
      Operand(DNNL_ARG_DIFF_DST, l.y, desc.diff_dst_desc()), std::nullopt,
      Operand(DNNL_ARG_DIFF_WEIGHTS, l.w, desc.diff_weights_desc()), desc.scratchpad_desc());
}

std::unique_ptr<OnednnKernel> make_gemm(const GemmShape& s, bool bias) {
  const memory::desc a({s.m, s.k}, kF32, memory::dims{s.a_row, s.a_col});
  const memory::desc b({s.k, s.n}, kF32, memory::dims{s.b_row, s.b_col});
  const memory::desc c({s.m, s.n}, kF32, memory::dims{s.c_row, s.c_col});
  const memory::desc row({1, s.n}, kF32, memory::format_tag::ab);
  const auto attr = caller_owned_scratchpad();
  const auto desc = bias ? described<dnnl::matmul>(cpu_engine(), attr, a, b, row, c)
                         : described<dnnl::matmul>(cpu_engine(), attr, a, b, c);
  std::optional<Operand> bias_operand;
  if (bias) bias_operand.emplace(DNNL_ARG_BIAS, row, row);
  return std::make_unique<PrimitiveKernel>(
      dnnl::matmul(desc), desc.impl_info_str(), Operand(DNNL_ARG_SRC, a, desc.src_desc()),
      Operand(DNNL_ARG_WEIGHTS, b, desc.weights_desc()), bias_operand,
      Operand(DNNL_ARG_DST, c, desc.dst_desc()), desc.scratchpad_desc());
}

// The library throws an exception for an unsupported shape; here that is an ordinary result.
template <class Make>
Result<std::unique_ptr<OnednnKernel>> or_refusal(const char* what, Make make) {
  use_one_thread();
  try {
    return make();
  } catch (const dnnl::error& error) {
    return refusal(what, error);
  }
}

class Library final : public OnednnLibrary {
 public:
  explicit Library(CpuClass cpu_class) : class_(cpu_class) {}

  CpuClass cpu_class() const { return class_; }

  std::string name() const override {
    const dnnl_version_t* v = dnnl::version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
           std::to_string(v->patch);
  }

  Result<std::unique_ptr<OnednnKernel>> conv(const ConvShape& s, ConvPass pass,
                                             bool bias) const override {
    return or_refusal("a convolution", [&]() -> std::unique_ptr<OnednnKernel> {
      const ConvLayout layout(s);
      switch (pass) {
        case ConvPass::kForward:
          return make_forward(layout, bias);
        case ConvPass::kDataGradient:
          return make_data_gradient(layout);
        case ConvPass::kWeightGradient:
          return make_weight_gradient(layout);
      }
      ES_CHECK(false);
    });
  }

  Result<std::unique_ptr<OnednnKernel>> gemm(const GemmShape& s, bool bias) const override {
    return or_refusal("a product", [&] { return make_gemm(s, bias); });
  }

 private:
  CpuClass class_;
};

}  // namespace

Result<const OnednnLibrary*> open_onednn(CpuClass cpu_class) {
  static std::mutex mutex;
  static std::optional<Library> library;
  if (cpu_class == CpuClass::kScalar) return static_cast<const OnednnLibrary*>(nullptr);
  const std::lock_guard lock(mutex);
  if (!library) {
    // The library accepts this limit only before it creates its first kernel.
    const auto limit =
        cpu_class == CpuClass::kAvx2 ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::avx512_core;
    if (dnnl::set_max_cpu_isa(limit) != dnnl::status::success)
      return failure("oneDNN cannot be limited to " + device_type(cpu_class).name +
                     ": the process has used it before");
    library.emplace(cpu_class);
  }
  // The instruction set of the library is fixed for the process. A kernel for another class could
  // have other bits than the name of the class promises.
  if (library->cpu_class() != cpu_class)
    return failure("oneDNN serves " + device_type(library->cpu_class()).name +
                   " in this process; it cannot serve " + device_type(cpu_class).name + " too");
  return static_cast<const OnednnLibrary*>(&*library);
}

}  // namespace es::gpu
