#pragma once
// oneDNN's implementations of the operations that the kernels benchmark compares. Each is a call
// that runs on buffers of its own.
#include <cstdint>
#include <functional>

#include "gpu/canonical/kernels.h"

namespace es::bench {

enum class ConvPass { kForward, kDataGradient, kWeightGradient };

enum class DnnlLayout {
  kNhwc,  // The layout of our tensors.
  kOwn    // The layout that oneDNN prefers. Its reorders are not counted.
};

// Empty when oneDNN has no implementation for the shape.
std::function<void()> dnnl_conv(const gpu::ConvShape&, ConvPass, DnnlLayout);
// C[m][n] = A[m][k] * B, all row-major, B [k][n], or [n][k] when `b_transposed`.
std::function<void()> dnnl_gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool b_transposed);
// Training-mode batch norm with ReLU over [rows][c].
std::function<void()> dnnl_batch_norm(std::int64_t rows, std::int64_t c, bool backward);
std::function<void()> dnnl_max_pool(const gpu::PoolShape&, bool backward);

}  // namespace es::bench
