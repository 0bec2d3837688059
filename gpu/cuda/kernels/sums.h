#pragma once
// SUM64 (G2 in docs/reference/operators.md) for GPUs. A run of 32 threads sums a row; thread t has
// the lanes t and t + 32.
#include "gpu/canonical/order.h"
#include "gpu/cuda/kernels/pack.h"
#include "gpu/cuda/launch.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// For kernels whose threads use down() and first() and share no memory.
struct OnlyRuns {
  std::uint32_t unused;
};

// Lane t of the sum is `low` of thread t, and lane t + 32 is its `high`. The result is in every
// thread.
template <class Block>
ES_HD float fold_lanes(const Block& block, float low, float high) {
  float sum = low + high;
  // Only the sum of thread 0 counts; first() gives it to all threads. The upper threads add values
  // that the fold does not use.
  for (unsigned half = 16; half > 0; half /= 2) sum = sum + block.down(sum, half);
  return block.first(sum);
}

// Returns the sum of one chunk, or of the results of all chunks, computed by a run of 32 threads.
// step(i, sum) returns `sum` with element i added; i counts from the beginning of the array.
template <class Block, class Step>
ES_HD float run_sum64_chunk(const Block& block, std::int64_t begin, std::int64_t n, Step step) {
  constexpr int kAtOnce = 8;  // number of loads in flight
  const std::int64_t lane = block.thread() % 32, end = begin + n;
  float low = 0.0f, high = 0.0f;
  std::int64_t i = begin + lane;
  for (; i + kAtOnce * kSumLanes <= end + lane; i += kAtOnce * kSumLanes) {
    ES_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      low = step(i + j * kSumLanes, low);
      high = step(i + j * kSumLanes + 32, high);
    }
  }
  for (; i < end; i += kSumLanes) {
    low = step(i, low);
    if (i + 32 < end) high = step(i + 32, high);
  }
  return fold_lanes(block, low, high);
}

// Adds the result of chunk `chunk` to its lane.
template <class Block>
ES_HD void add_chunk(const Block& block, std::int64_t chunk, float result, float& low,
                     float& high) {
  const auto lane = static_cast<unsigned>(chunk % kSumLanes), thread = block.thread() % 32;
  if (lane == thread) low = low + result;
  if (lane == thread + 32) high = high + result;
}

// Returns SUM64, computed by a run of 32 threads.
template <class Block, class Step>
ES_HD float run_sum64(const Block& block, std::int64_t n, Step step) {
  if (n <= kSumChunk) return run_sum64_chunk(block, 0, n, step);
  float low = 0.0f, high = 0.0f;
  for (std::int64_t chunk = 0; chunk * kSumChunk < n; ++chunk) {
    const std::int64_t begin = chunk * kSumChunk;
    const float result = run_sum64_chunk(block, begin, smaller(kSumChunk, n - begin), step);
    add_chunk(block, chunk, result, low, high);
  }
  return fold_lanes(block, low, high);
}

// Returns SUM64, computed by a block of kThreads threads. Each run of 32 has chunks of its own. The
// result is in every thread of the first run.
struct BlockSum {
  float result[kSumLanes];
};
template <unsigned kThreads, class Block, class Step>
ES_HD float block_sum64(const Block& block, BlockSum& shared, std::int64_t n, Step step) {
  const unsigned run = block.thread() / 32;
  if (n <= kSumChunk) return run == 0 ? run_sum64_chunk(block, 0, n, step) : 0.0f;
  float low = 0.0f, high = 0.0f;
  for (std::int64_t base = 0; base * kSumChunk < n; base += kSumLanes) {
    for (unsigned at = run; at < kSumLanes; at += kThreads / 32) {
      const std::int64_t begin = (base + at) * kSumChunk;
      const float result =
          begin < n ? run_sum64_chunk(block, begin, smaller(kSumChunk, n - begin), step) : 0.0f;
      if (block.thread() % 32 == 0) shared.result[at] = result;
    }
    block.sync();
    low = low + shared.result[block.thread() % 32];
    high = high + shared.result[block.thread() % 32 + 32];
    // The next round overwrites the results of this round.
    block.sync();
  }
  return run == 0 ? fold_lanes(block, low, high) : 0.0f;
}

}  // namespace
}  // namespace es::gpu::cuda::ES_CUDA_SPACE
