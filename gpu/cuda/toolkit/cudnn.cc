// The older interface of cuDNN is sufficient here: one convolution at a time, and an algorithm that
// is identified by its number.
#include "gpu/cuda/toolkit/cudnn.h"

#include <cudnn.h>

#include <array>
#include <optional>

#include "gpu/cuda/toolkit/shared_library.h"

namespace es::gpu::cuda {
namespace {

// Largest scratch memory in bytes. Algorithms that need more are not considered.
constexpr std::size_t kWorkspaceBytesMax = std::size_t{1} << 30;
constexpr int kAlgorithmsMax = 10;

struct Functions {
  explicit Functions(SharedLibrary& library)
      :
#define ES_CUDNN(member, name) member(ES_FUNCTION(library, name))
        ES_CUDNN(create, cudnnCreate),
        ES_CUDNN(destroy, cudnnDestroy),
        ES_CUDNN(version, cudnnGetVersion),
        ES_CUDNN(text, cudnnGetErrorString),
        ES_CUDNN(set_stream, cudnnSetStream),
        ES_CUDNN(create_tensor, cudnnCreateTensorDescriptor),
        ES_CUDNN(destroy_tensor, cudnnDestroyTensorDescriptor),
        ES_CUDNN(set_tensor, cudnnSetTensor4dDescriptor),
        ES_CUDNN(create_filter, cudnnCreateFilterDescriptor),
        ES_CUDNN(destroy_filter, cudnnDestroyFilterDescriptor),
        ES_CUDNN(set_filter, cudnnSetFilter4dDescriptor),
        ES_CUDNN(create_conv, cudnnCreateConvolutionDescriptor),
        ES_CUDNN(destroy_conv, cudnnDestroyConvolutionDescriptor),
        ES_CUDNN(set_conv, cudnnSetConvolution2dDescriptor),
        ES_CUDNN(set_groups, cudnnSetConvolutionGroupCount),
        ES_CUDNN(set_math, cudnnSetConvolutionMathType),
        ES_CUDNN(choose_forward, cudnnGetConvolutionForwardAlgorithm_v7),
        ES_CUDNN(choose_data, cudnnGetConvolutionBackwardDataAlgorithm_v7),
        ES_CUDNN(choose_filter, cudnnGetConvolutionBackwardFilterAlgorithm_v7),
        ES_CUDNN(forward_bytes, cudnnGetConvolutionForwardWorkspaceSize),
        ES_CUDNN(data_bytes, cudnnGetConvolutionBackwardDataWorkspaceSize),
        ES_CUDNN(filter_bytes, cudnnGetConvolutionBackwardFilterWorkspaceSize),
        ES_CUDNN(forward, cudnnConvolutionForward),
        ES_CUDNN(backward_data, cudnnConvolutionBackwardData),
        ES_CUDNN(backward_filter, cudnnConvolutionBackwardFilter) {
  }
#undef ES_CUDNN

  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) text;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnCreateTensorDescriptor) create_tensor;
  decltype(&cudnnDestroyTensorDescriptor) destroy_tensor;
  decltype(&cudnnSetTensor4dDescriptor) set_tensor;
  decltype(&cudnnCreateFilterDescriptor) create_filter;
  decltype(&cudnnDestroyFilterDescriptor) destroy_filter;
  decltype(&cudnnSetFilter4dDescriptor) set_filter;
  decltype(&cudnnCreateConvolutionDescriptor) create_conv;
  decltype(&cudnnDestroyConvolutionDescriptor) destroy_conv;
  decltype(&cudnnSetConvolution2dDescriptor) set_conv;
  decltype(&cudnnSetConvolutionGroupCount) set_groups;
  decltype(&cudnnSetConvolutionMathType) set_math;
  decltype(&cudnnGetConvolutionForwardAlgorithm_v7) choose_forward;
  decltype(&cudnnGetConvolutionBackwardDataAlgorithm_v7) choose_data;
  decltype(&cudnnGetConvolutionBackwardFilterAlgorithm_v7) choose_filter;
  decltype(&cudnnGetConvolutionForwardWorkspaceSize) forward_bytes;
  decltype(&cudnnGetConvolutionBackwardDataWorkspaceSize) data_bytes;
  decltype(&cudnnGetConvolutionBackwardFilterWorkspaceSize) filter_bytes;
  decltype(&cudnnConvolutionForward) forward;
  decltype(&cudnnConvolutionBackwardData) backward_data;
  decltype(&cudnnConvolutionBackwardFilter) backward_filter;
};

// Keeps the first status that is not success.
class Calls {
 public:
  Calls& operator<<(cudnnStatus_t status) {
    if (first_ == CUDNN_STATUS_SUCCESS) first_ = status;
    return *this;
  }
  bool ok() const { return first_ == CUDNN_STATUS_SUCCESS; }
  cudnnStatus_t status() const { return first_; }

 private:
  cudnnStatus_t first_ = CUDNN_STATUS_SUCCESS;
};

// Returns the arithmetic in which a proposed algorithm is to run; nullopt: the algorithm must not
// run. Nothing may be rounded to less than TF32. In fp32 mode, an algorithm that is proposed with
// the default arithmetic, in which the library may choose TF32, is requested with plain fused
// multiply-adds.
std::optional<cudnnMathType_t> arithmetic(cudnnMathType_t proposed, VendorMath math) {
  if (math == VendorMath::kFp32) {
    if (proposed == CUDNN_FMA_MATH || proposed == CUDNN_DEFAULT_MATH) return CUDNN_FMA_MATH;
    return std::nullopt;
  }
  const bool known = proposed == CUDNN_FMA_MATH || proposed == CUDNN_DEFAULT_MATH ||
                     proposed == CUDNN_TENSOR_OP_MATH;
  return known ? std::optional(proposed) : std::nullopt;
}

class CudnnLibrary final : public Cudnn {
 public:
  const Functions f;

  CudnnLibrary(SharedLibrary& library, VendorMath math) : f(library), math_(math) {}
  ~CudnnLibrary() override {
    if (handle_ != nullptr) f.destroy(handle_);
  }
  Status start() { return check(f.create(&handle_), "cudnnCreate"); }
  std::string name() const override {
    const std::size_t v = f.version();  // for example 91900 = 9.19.0
    return "cuDNN " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
           std::to_string(v % 100);
  }
  Result<std::unique_ptr<DeviceVendorKernel>> conv(const ConvShape& shape, ConvPass pass) override;

  Status check(cudnnStatus_t status, const char* call) const {
    if (status == CUDNN_STATUS_SUCCESS) return {};
    return failure(std::string(call) + ": " + f.text(status));
  }
  cudnnHandle_t handle() const { return handle_; }
  VendorMath math() const { return math_; }
  Status use(Stream stream) {
    return check(f.set_stream(handle_, static_cast<cudaStream_t>(stream.handle)), "cudnnSetStream");
  }

 private:
  const VendorMath math_;
  cudnnHandle_t handle_ = nullptr;
};

class CudnnConv final : public DeviceVendorKernel {
 public:
  CudnnConv(CudnnLibrary& library, ConvPass pass) : library_(library), f(library.f), pass_(pass) {}
  ~CudnnConv() override {
    for (const cudnnTensorDescriptor_t t : {x_, y_})
      if (t != nullptr) f.destroy_tensor(t);
    if (w_ != nullptr) f.destroy_filter(w_);
    if (conv_ != nullptr) f.destroy_conv(conv_);
  }

  Status describe(const ConvShape& s) {
    const auto number = [](std::int64_t value) { return static_cast<int>(value); };
    Calls calls;
    calls << f.create_tensor(&x_) << f.create_tensor(&y_) << f.create_filter(&w_)
          << f.create_conv(&conv_);
    // The calls below need all four descriptors.
    if (!calls.ok()) return library_.check(calls.status(), "the descriptors of a convolution");
    calls << f.set_tensor(x_, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, number(s.n), number(s.c),
                          number(s.h), number(s.w))
          << f.set_tensor(y_, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, number(s.n), number(s.oc),
                          number(s.oh()), number(s.ow()))
          << f.set_filter(w_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, number(s.oc),
                          number(s.c / s.groups), number(s.kh), number(s.kw))
          << f.set_conv(conv_, number(s.pad), number(s.pad), number(s.stride), number(s.stride), 1,
                        1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT)
          << f.set_groups(conv_, number(s.groups))
          // This is the arithmetic with which cuDNN is asked for algorithms. take() sets the
          // arithmetic of the chosen one.
          << f.set_math(conv_,
                        library_.math() == VendorMath::kTf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH);
    return library_.check(calls.status(), "the descriptors of a convolution");
  }

  Status choose() {
    const cudnnHandle_t handle = library_.handle();
    if (pass_ == ConvPass::kForward)
      return choose_from<cudnnConvolutionFwdAlgoPerf_t>([&](int* count, auto* found) {
        return f.choose_forward(handle, x_, w_, conv_, y_, kAlgorithmsMax, count, found);
      });
    if (pass_ == ConvPass::kDataGradient)
      return choose_from<cudnnConvolutionBwdDataAlgoPerf_t>([&](int* count, auto* found) {
        return f.choose_data(handle, w_, y_, conv_, x_, kAlgorithmsMax, count, found);
      });
    return choose_from<cudnnConvolutionBwdFilterAlgoPerf_t>([&](int* count, auto* found) {
      return f.choose_filter(handle, x_, y_, conv_, w_, kAlgorithmsMax, count, found);
    });
  }

  std::string algorithm() const override {
    return std::string(call()) + " " + std::to_string(algorithm_) +
           (math_ == CUDNN_FMA_MATH ? "" : " tf32");
  }
  std::size_t workspace_bytes() const override { return bytes_; }

  Status run(Stream stream, const float* a, const float* b, float* out, void* ws) override {
    const float one = 1.0F, zero = 0.0F;
    ES_RETURN_IF_ERROR(library_.use(stream));
    const cudnnHandle_t handle = library_.handle();
    cudnnStatus_t status;
    if (pass_ == ConvPass::kForward) {
      status =
          f.forward(handle, &one, x_, a, w_, b, conv_,
                    static_cast<cudnnConvolutionFwdAlgo_t>(algorithm_), ws, bytes_, &zero, y_, out);
    } else if (pass_ == ConvPass::kDataGradient) {  // a: dy, b: weights
      status = f.backward_data(handle, &one, w_, b, y_, a, conv_,
                               static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm_), ws, bytes_,
                               &zero, x_, out);
    } else {  // a: x, b: dy
      status = f.backward_filter(handle, &one, x_, a, y_, b, conv_,
                                 static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm_), ws,
                                 bytes_, &zero, w_, out);
    }
    return library_.check(status, call());
  }

 private:
  const char* call() const {
    if (pass_ == ConvPass::kForward) return "cudnnConvolutionForward";
    return pass_ == ConvPass::kDataGradient ? "cudnnConvolutionBackwardData"
                                            : "cudnnConvolutionBackwardFilter";
  }
  // Chooses the first algorithm in the order of cuDNN's heuristics that promises the same bits
  // every time.
  template <class Perf, class Choose>
  Status choose_from(const Choose& propose) {
    int count = 0;
    std::array<Perf, kAlgorithmsMax> found{};
    ES_RETURN_IF_ERROR(library_.check(propose(&count, found.data()), call()));
    for (int i = 0; i < count; ++i) {
      const Perf& p = found[static_cast<std::size_t>(i)];
      // The heuristics propose by shape. No algorithm is timed, because a time could change the
      // choice, and with it the bits.
      if (p.status == CUDNN_STATUS_SUCCESS && p.determinism == CUDNN_DETERMINISTIC &&
          take(static_cast<int>(p.algo), p.mathType))
        return {};
    }
    return failure(std::string(call()) + ": of " + std::to_string(count) +
                   " algorithms that cuDNN proposes none is deterministic in the job's arithmetic");
  }
  // The proposed size of the scratch memory holds for the proposed arithmetic, so the size is asked
  // for again.
  bool take(int algorithm, cudnnMathType_t proposed) {
    const auto math = arithmetic(proposed, library_.math());
    // The arithmetic is set on the descriptor of this convolution, which every later call uses.
    if (!math || f.set_math(conv_, *math) != CUDNN_STATUS_SUCCESS) return false;
    algorithm_ = algorithm;
    math_ = *math;
    return scratch_bytes(bytes_) == CUDNN_STATUS_SUCCESS && bytes_ <= kWorkspaceBytesMax;
  }
  cudnnStatus_t scratch_bytes(std::size_t& bytes) const {
    const cudnnHandle_t handle = library_.handle();
    if (pass_ == ConvPass::kForward)
      return f.forward_bytes(handle, x_, w_, conv_, y_,
                             static_cast<cudnnConvolutionFwdAlgo_t>(algorithm_), &bytes);
    if (pass_ == ConvPass::kDataGradient)
      return f.data_bytes(handle, w_, y_, conv_, x_,
                          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm_), &bytes);
    return f.filter_bytes(handle, x_, y_, conv_, w_,
                          static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm_), &bytes);
  }

  CudnnLibrary& library_;
  const Functions& f;
  const ConvPass pass_;
  cudnnTensorDescriptor_t x_ = nullptr, y_ = nullptr;
  cudnnFilterDescriptor_t w_ = nullptr;
  cudnnConvolutionDescriptor_t conv_ = nullptr;
  int algorithm_ = 0;
  std::size_t bytes_ = 0;
  cudnnMathType_t math_ = CUDNN_FMA_MATH;
};

Result<std::unique_ptr<DeviceVendorKernel>> CudnnLibrary::conv(const ConvShape& shape,
                                                               ConvPass pass) {
  auto kernel = std::make_unique<CudnnConv>(*this, pass);
  ES_RETURN_IF_ERROR(kernel->describe(shape));
  ES_RETURN_IF_ERROR(kernel->choose());
  return std::unique_ptr<DeviceVendorKernel>(std::move(kernel));
}

}  // namespace

Result<std::unique_ptr<Cudnn>> open_cudnn(VendorMath math) {
  SharedLibrary library("libcudnn.so." + std::to_string(CUDNN_MAJOR));
  if (!library.installed()) return std::unique_ptr<Cudnn>();
  auto cudnn = std::make_unique<CudnnLibrary>(library, math);
  ES_RETURN_IF_ERROR(library.complete());
  ES_RETURN_IF_ERROR(cudnn->start());
  return std::unique_ptr<Cudnn>(std::move(cudnn));
}

}  // namespace es::gpu::cuda
