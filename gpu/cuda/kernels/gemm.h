#pragma once
// Batches of matrix products, for operators that consist of them.
#include <cstddef>

#include "gpu/canonical/kernels.h"
#include "gpu/cuda/kernels/product_cut.h"
#include "gpu/cuda/launch.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {

// `count` products. Matrix X of product i begins at x + x.outer * (i / inner) + x.inner * (i mod
// inner).
struct MatrixBatch {
  std::int64_t count = 1, inner = 1;
  BatchSteps a, b, c;
};

// `bias` is bias[n], added afterwards, or nullptr. `ws` has matrices_workspace_floats() floats.
void multiply_matrices(Stream stream, const GemmShape& shape, const MatrixBatch& batch,
                       const float* a, const float* b, const float* bias, float* c, float* ws);
std::size_t matrices_workspace_floats(const GemmShape& shape, const MatrixBatch& batch);

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
