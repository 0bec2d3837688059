#pragma once
// Kernels in which a run of 32 threads processes a row.
#include "gpu/cuda/kernels/sums.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

constexpr unsigned kRowThreads = 256;  // of a block

// Returns the row of a thread. If it is beyond the last row, all 32 threads of the run return from
// the kernel together.
template <class Block>
ES_HD std::int64_t my_row(const Block& block) {
  return static_cast<std::int64_t>(block.x()) * (kRowThreads / 32) + block.thread() / 32;
}
inline std::int64_t blocks_of_rows(std::int64_t rows) {
  return ceil_div(rows, kRowThreads / 32);
}

// Returns the maximum by `max < x ? x : max` from -inf, in every thread of the run.
template <class Block>
ES_HD float row_max(const Block& block, std::int64_t n, const float* x) {
  float max = -kInfinity;
  for (std::int64_t i = block.thread() % 32; i < n; i += 32) max = max < x[i] ? x[i] : max;
  for (unsigned half = 16; half > 0; half /= 2) {
    const float other = block.down(max, half);
    max = max < other ? other : max;
  }
  return block.first(max);
}

// y[i] = f(i) for the row. f may read element i of an array that y overwrites, because a
// thread computes the value of an element before it stores it.
template <class Block, class Function>
ES_HD void write_row(const Block& block, std::int64_t n, float* y, Function f) {
  constexpr int kAtOnce = 4;
  for (std::int64_t i = block.thread() % 32; i < n; i += 32 * kAtOnce) {
    float v[kAtOnce] = {};
    ES_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      if (i + 32 * j < n) v[j] = f(i + 32 * j);
    }
    ES_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      if (i + 32 * j < n) y[i + 32 * j] = v[j];
    }
  }
}

}  // namespace
}  // namespace es::gpu::cuda::ES_CUDA_SPACE
