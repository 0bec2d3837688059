// A stand-in for cuBLAS (fake_vendor.h).
#include "gpu/canonical/kernels.h"
#include "gpu/cuda/launch_host.h"
#include "tests/gpu/cuda/fake_vendor.h"

using es::test::FakeCublas;

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace {

FakeCublas& fake() {
  return *es_fake_cublas();
}

cublasStatus_t done(cublasStatus_t status = CUBLAS_STATUS_SUCCESS) {
  if (fake().leaves) fake().leaves();
  return status;
}

}  // namespace

extern "C" {

FakeCublas* es_fake_cublas() {
  static FakeCublas one;
  return &one;
}

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (fake().starts != CUBLAS_STATUS_SUCCESS) return done(fake().starts);
  *handle = new cublasContext;
  return done();
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return done();
}
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  *version = 130100;
  return done();
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return done();
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, std::size_t) {
  return done();
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t math) {
  fake().math = math;
  return done();
}
const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "fake: not supported" : "fake: another error";
}

// In column-major order, as cuBLAS has it: op(A) is m x k, op(B) is k x n.
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t a_op,
                                         cublasOperation_t b_op, int m, int n, int k, const float*,
                                         const float* a, int lda, long long int a_step,
                                         const float* b, int ldb, long long int b_step,
                                         const float*, float* c, int ldc, long long int c_step,
                                         int count) {
  const cublasStatus_t status = fake().runs ? fake().runs() : CUBLAS_STATUS_SUCCESS;
  if (status != CUBLAS_STATUS_SUCCESS) return done(status);
  ++fake().ran;
  const bool a_plain = a_op == CUBLAS_OP_N, b_plain = b_op == CUBLAS_OP_N;
  const es::gpu::GemmShape shape{.m = m,
                                 .n = n,
                                 .k = k,
                                 .a_row = a_plain ? 1 : lda,
                                 .a_col = a_plain ? lda : 1,
                                 .b_row = b_plain ? 1 : ldb,
                                 .b_col = b_plain ? ldb : 1,
                                 .c_row = 1,
                                 .c_col = ldc};
  auto* const queue = static_cast<es::gpu::cuda::HostQueue*>(static_cast<void*>(handle->stream));
  queue->add([=] {
    for (int i = 0; i < count; ++i)
      fake().compute(shape, a + i * a_step, b + i * b_step, c + i * c_step);
  });
  return done();
}

}  // extern "C"
