#pragma once
// The mean of a loss: one block sums.
#include "gpu/cuda/kernels/sums.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// *mean = SUM64(x) * factor, n <= 2^28.
struct Mean {
  static constexpr unsigned kThreads = 512;
  using Shared = BlockSum;
  std::int64_t n;
  const float* x;
  float factor;
  float* mean;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared& shared) const {
    const float sum = block_sum64<kThreads>(
        block, shared, n, [&](std::int64_t i, float lane) { return lane + x[i]; });
    if (block.thread() == 0) *mean = sum * factor;
  }
};

}  // namespace
}  // namespace es::gpu::cuda::ES_CUDA_SPACE
