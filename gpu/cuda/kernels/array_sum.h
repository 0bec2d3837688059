#pragma once
// SUM64 of a whole array, times a factor. A run of 32 threads sums each chunk of 16,384 elements,
// in blocks all over the device. Then one run sums the results of the chunks, however many.
#include <cstddef>

#include "gpu/cuda/kernels/sums.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

struct AddElement {
  ES_HD float operator()(float x, float lane) const { return lane + x; }
};
struct AddSquare {
  ES_HD float operator()(float x, float lane) const { return fma(x, x, lane); }
};

// to[i] = the sum of the i-th part of `length` elements, times the factor.
template <class Add>
struct SumChunks {
  static constexpr unsigned kThreads = 128;
  using Shared = OnlyRuns;
  std::int64_t n, length;
  const float* x;
  float factor;
  float* to;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t part = thread_in_grid(*this, block) / 32, begin = part * length;
    if (begin >= n) return;
    const float sum =
        run_sum64_chunk(block, begin, smaller(length, n - begin),
                        [&](std::int64_t i, float lane) { return Add()(x[i], lane); });
    if (block.thread() % 32 == 0) to[part] = sum * factor;
  }
};

template <class Add>
void sum_chunks(Stream stream, std::int64_t n, std::int64_t length, const float* x, float factor,
                float* to) {
  using Kernel = SumChunks<Add>;
  launch(stream, {.x = blocks_for<Kernel>(32 * ceil_div(n, length))},
         Kernel{n, length, x, factor, to});
}

inline std::size_t array_sum_workspace_floats(std::int64_t n) {
  return n <= kSumChunk ? 0 : static_cast<std::size_t>(ceil_div(n, kSumChunk));
}

// *sum = SUM64 over the array, times the factor; 0 < n.
template <class Add>
void array_sum(Stream stream, std::int64_t n, const float* x, float factor, float* sum, float* ws) {
  if (n <= kSumChunk) return sum_chunks<Add>(stream, n, n, x, factor, sum);
  sum_chunks<Add>(stream, n, kSumChunk, x, 1.0f, ws);
  const std::int64_t results = ceil_div(n, kSumChunk);
  sum_chunks<AddElement>(stream, results, results, ws, factor, sum);
}

}  // namespace
}  // namespace es::gpu::cuda::ES_CUDA_SPACE
