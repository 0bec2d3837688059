// GEMM: DOT(K) (G1), or exact products (G1X), of matrices with any strides.
#include "gpu/cuda/kernels/exact.h"
#include "gpu/cuda/kernels/gemm.h"
#include "gpu/cuda/kernels/product.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

ProductShape product_shape(const GemmShape& s, const MatrixBatch& batch) {
  return {.m = s.m, .n = s.n, .k = s.k, .count = batch.count, .inner = batch.inner};
}

// Describes one operand, `rows` x `depth`. If it is contiguous along its rows it is fetched in that
// direction, otherwise along k.
template <class Call>
void with_operand(const float* p, std::int64_t rows, std::int64_t depth, std::int64_t row_step,
                  std::int64_t depth_step, const BatchSteps& batch, const Call& call) {
  const auto count = static_cast<std::uint32_t>(rows);
  const bool aligned = in_quads(p, batch);
  // The two directions are two types, so that the kernel contains no branch on the direction. Which
  // one is used changes the loads and no result.
  if (row_step == 1 && depth_step != 1) {
    call(Matrix<QuadAlongRows>{p, row_step, depth_step, count, batch,
                               aligned && depth_step % 4 == 0 && rows % 4 == 0});
  } else {
    call(Matrix<QuadAlongDepth>{p, row_step, depth_step, count, batch,
                                aligned && depth_step == 1 && row_step % 4 == 0 && depth % 4 == 0});
  }
}

}  // namespace

void multiply_matrices(Stream stream, const GemmShape& s, const MatrixBatch& batch, const float* a,
                       const float* b, const float* bias, float* c, float* ws) {
  const Target target{.c = c,
                      .row = s.c_row,
                      .col = s.c_col,
                      .batch = batch.c,
                      .quads = s.c_col == 1 && in_quads(c, s.c_row) && in_quads(c, batch.c),
                      .pixels = {},
                      .add = s.add};
  with_operand(a, s.m, s.k, s.a_row, s.a_col, batch.a, [&](const auto& left) {
    with_operand(b, s.n, s.k, s.b_col, s.b_row, batch.b, [&](const auto& right) {
      multiply(stream, product_shape(s, batch), left, right, target, Bias{bias, 0}, ws);
    });
  });
}

std::size_t matrices_workspace_floats(const GemmShape& s, const MatrixBatch& batch) {
  return product_workspace_floats(product_shape(s, batch));
}

namespace {

std::size_t gemm_workspace_floats(const GemmShape& s, std::int64_t count) {
  if (s.arithmetic != Arithmetic::kFp32) return exact_workspace_floats(s, count);
  return matrices_workspace_floats(s, {.count = count, .inner = count});
}

void gemm(Stream stream, const GemmShape& s, std::int64_t count, std::int64_t a_step,
          std::int64_t b_step, std::int64_t c_step, const float* a, const float* b,
          const float* bias, float* c, float* ws) {
  if (count == 0) return;
  if (s.arithmetic != Arithmetic::kFp32)
    return multiply_exactly(stream, exact_route(s), s, count, a_step, b_step, c_step, a, b, bias, c,
                            ws);
  const MatrixBatch batch{.count = count,
                          .inner = count,
                          .a = {.inner = a_step},
                          .b = {.inner = b_step},
                          .c = {.inner = c_step}};
  multiply_matrices(stream, s, batch, a, b, bias, c, ws);
}

}  // namespace

void add_gemm(DeviceKernels& kernels) {
  kernels.gemm_workspace_floats = gemm_workspace_floats;
  kernels.gemm = gemm;
  kernels.has_exact_route = has_exact_route;
  kernels.exact_gemm = multiply_exactly;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
