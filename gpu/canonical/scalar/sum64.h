#pragma once
// SUM64 (G2), the rule of every sum along a row.
#include "gpu/canonical/scalar_math.h"

namespace es::gpu {
namespace {

// Sums up to 16,384 elements: element i goes to lane i % 64, each lane is a chain from +0, and then
// the lanes are folded by halves. step(i, sum) returns `sum` with element i added. The +0 summands
// that fill the last row of lanes change nothing, since a lane is never -0.
template <class Step>
float sum64_chunk(std::int64_t begin, std::int64_t n, Step step) {
  float lanes[kSumLanes] = {};
  for (std::int64_t i = 0; i < n; ++i) lanes[i % kSumLanes] = step(begin + i, lanes[i % kSumLanes]);
  for (std::int64_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] = lanes[lane] + lanes[lane + half];
  }
  return lanes[0];
}

// SUM64 of n elements. Above 16,384 the results of the chunks are added to their lanes as they
// arrive, however many there are.
template <class Step>
float sum64_steps(std::int64_t n, Step step) {
  if (n <= kSumChunk) return sum64_chunk(0, n, step);
  float results[kSumLanes] = {};
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; i += kSumChunk, ++count) {
    const float result = sum64_chunk(i, smaller(kSumChunk, n - i), step);
    results[count % kSumLanes] = results[count % kSumLanes] + result;
  }
  return sum64_chunk(0, kSumLanes, [&](std::int64_t i, float sum) { return sum + results[i]; });
}

// Returns SUM64 of x.
inline float sum64(std::int64_t n, const float* x) {
  return sum64_steps(n, [x](std::int64_t i, float sum) { return sum + x[i]; });
}
// Returns SUM64 of a * b with products as fma.
inline float sum64_products(std::int64_t n, const float* a, const float* b) {
  return sum64_steps(n, [a, b](std::int64_t i, float sum) { return fma(a[i], b[i], sum); });
}

}  // namespace
}  // namespace es::gpu
