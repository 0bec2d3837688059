#include "gpu/cuda/toolkit/cublas.h"

#include <cublas_v2.h>

#include <limits>
#include <optional>

#include "gpu/cuda/toolkit/shared_library.h"

namespace es::gpu::cuda {
namespace {

// The size that cuBLAS recommends for the GPUs that need most. It is the same on every GPU, because
// it may decide the algorithm.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

class CublasLibrary final : public Cublas {
 public:
  CublasLibrary(Device& device, SharedLibrary& library, VendorMath math)
      : device_(device),
        math_(math),
        create_(ES_FUNCTION(library, cublasCreate_v2)),
        destroy_(ES_FUNCTION(library, cublasDestroy_v2)),
        version_(ES_FUNCTION(library, cublasGetVersion_v2)),
        set_stream_(ES_FUNCTION(library, cublasSetStream_v2)),
        set_workspace_(ES_FUNCTION(library, cublasSetWorkspace_v2)),
        set_math_mode_(ES_FUNCTION(library, cublasSetMathMode)),
        gemm_(ES_FUNCTION(library, cublasSgemmStridedBatched)),
        text_(ES_FUNCTION(library, cublasGetStatusString)) {}
  ~CublasLibrary() override {
    if (handle_ != nullptr) destroy_(handle_);
  }

  Status start() {
    ES_RETURN_IF_ERROR(check(create_(&handle_), "cublasCreate"));
    // The pedantic mode prescribes fp32 for all phases of a product.
    const cublasMath_t mode =
        math_ == VendorMath::kTf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_PEDANTIC_MATH;
    ES_RETURN_IF_ERROR(check(set_math_mode_(handle_, mode), "cublasSetMathMode"));
    ES_RETURN_IF_ERROR(check(version_(handle_, &number_), "cublasGetVersion"));
    // Beside other active streams, cuBLAS does not guarantee equal bits from run to run with the
    // workspace that it allocates itself. So it gets a workspace for its only stream.
    const auto memory = device_.allocate(kWorkspaceBytes, "cuBLAS");
    if (!memory) return memory.error();
    workspace_ = *memory;
    return {};
  }

  std::string name() const override {
    return "cuBLAS " + std::to_string(number_ / 10000) + "." + std::to_string(number_ / 100 % 100) +
           "." + std::to_string(number_ % 100);
  }
  Result<std::unique_ptr<DeviceVendorKernel>> gemm(const MatmulShape& shape) override;

  // cublasSetStream resets the workspace, so it is set again.
  Status use(Stream stream) {
    if (stream_ && stream_->handle == stream.handle) return {};
    // If one of the two calls fails, the next use begins with both again.
    stream_.reset();
    ES_RETURN_IF_ERROR(
        check(set_stream_(handle_, static_cast<cudaStream_t>(stream.handle)), "cublasSetStream"));
    ES_RETURN_IF_ERROR(
        check(set_workspace_(handle_, workspace_, kWorkspaceBytes), "cublasSetWorkspace"));
    stream_ = stream;
    return {};
  }

  Status check(cublasStatus_t status, const char* call) const {
    if (status == CUBLAS_STATUS_SUCCESS) return {};
    return failure(std::string(call) + ": " + text_(status));
  }

  cublasHandle_t handle() const { return handle_; }
  VendorMath math() const { return math_; }
  auto* gemm_function() const { return gemm_; }

 private:
  Device& device_;
  const VendorMath math_;
  decltype(&cublasCreate_v2) create_;
  decltype(&cublasDestroy_v2) destroy_;
  decltype(&cublasGetVersion_v2) version_;
  decltype(&cublasSetStream_v2) set_stream_;
  decltype(&cublasSetWorkspace_v2) set_workspace_;
  decltype(&cublasSetMathMode) set_math_mode_;
  decltype(&cublasSgemmStridedBatched) gemm_;
  decltype(&cublasGetStatusString) text_;
  cublasHandle_t handle_ = nullptr;
  int number_ = 0;
  void* workspace_ = nullptr;
  std::optional<Stream> stream_;
};

// A row-major matrix as cuBLAS sees its transpose: columns first.
struct Side {
  cublasOperation_t operation = CUBLAS_OP_N;
  int leading = 0;
};

std::optional<Side> side(std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kMax = std::numeric_limits<int>::max();
  // The interface takes 32-bit integers.
  if (rows > kMax || cols > kMax || row > kMax || col > kMax) return std::nullopt;
  // A matrix with contiguous rows is, for cuBLAS, the transposed matrix with contiguous columns. It
  // needs no operation.
  if (col == 1 && row >= cols) return Side{CUBLAS_OP_N, static_cast<int>(row)};
  if (row == 1 && col >= rows) return Side{CUBLAS_OP_T, static_cast<int>(col)};
  return std::nullopt;
}

// cuBLAS stores matrices by columns. C = A B by rows is the same as C' = B' A' by columns, so the
// operands are exchanged.
class CublasGemm final : public DeviceVendorKernel {
 public:
  CublasGemm(CublasLibrary& library, const MatmulShape& shape, Side a, Side b, Side c)
      : library_(library), shape_(shape), a_(a), b_(b), c_(c) {}

  std::string algorithm() const override {
    const bool tf32 = library_.math() == VendorMath::kTf32;
    return std::string("cublasSgemmStridedBatched") + (tf32 ? " tf32" : "");
  }
  std::size_t workspace_bytes() const override { return 0; }
  Status run(Stream stream, const float* a, const float* b, float* out, void*) override {
    const float one = 1.0F, zero = 0.0F;
    const GemmShape& g = shape_.gemm;
    ES_RETURN_IF_ERROR(library_.use(stream));
    return library_.check(library_.gemm_function()(
                              library_.handle(), b_.operation, a_.operation, static_cast<int>(g.n),
                              static_cast<int>(g.m), static_cast<int>(g.k), &one, b, b_.leading,
                              shape_.b_step, a, a_.leading, shape_.a_step, &zero, out, c_.leading,
                              shape_.y_step, static_cast<int>(shape_.count)),
                          "cublasSgemmStridedBatched");
  }

 private:
  CublasLibrary& library_;
  MatmulShape shape_;
  Side a_, b_, c_;
};

Result<std::unique_ptr<DeviceVendorKernel>> CublasLibrary::gemm(const MatmulShape& shape) {
  const GemmShape& g = shape.gemm;
  const auto a = side(g.a_row, g.a_col, g.m, g.k), b = side(g.b_row, g.b_col, g.k, g.n),
             c = side(g.c_row, g.c_col, g.m, g.n);
  // cuBLAS can read a transposed operand, but it cannot write a transposed result.
  if (!a || !b || !c || c->operation != CUBLAS_OP_N)
    return failure("cublasSgemmStridedBatched: takes no matrices of these strides");
  return std::unique_ptr<DeviceVendorKernel>(
      std::make_unique<CublasGemm>(*this, shape, *a, *b, *c));
}

}  // namespace

Result<std::unique_ptr<Cublas>> open_cublas(Device& device, VendorMath math) {
  SharedLibrary library("libcublas.so." + std::to_string(CUBLAS_VER_MAJOR));
  if (!library.installed()) return std::unique_ptr<Cublas>();
  auto cublas = std::make_unique<CublasLibrary>(device, library, math);
  ES_RETURN_IF_ERROR(library.complete());
  ES_RETURN_IF_ERROR(cublas->start());
  return std::unique_ptr<Cublas>(std::move(cublas));
}

}  // namespace es::gpu::cuda
