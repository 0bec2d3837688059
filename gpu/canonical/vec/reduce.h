#pragma once
// Reductions along a row: SUM64 (G2) and the maximum.
#include "gpu/canonical/vec/lanes.h"

namespace es::gpu {
namespace {

// The lanes of one SUM64, which are the lanes of 64 / kWidth vectors.
struct SumLanes {
  static constexpr int kVecs = kSumLanes / kWidth;
  Vec sum[kVecs];

  SumLanes() {
    for (Vec& s : sum) s = zero();
  }
  float fold() {
#pragma GCC unroll 3
    for (int half = kVecs / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
      for (int v = 0; v < half; ++v) sum[v] = add(sum[v], sum[v + half]);
    }
    return fold_lanes(sum[0]);
  }
};

// Calls body(i, access, v) for the vectors of [0, n) in ascending order, where v is the index of
// the vector of a SumLanes that contains the lanes of the elements i, i + 1, ...
template <class Body>
inline __attribute__((always_inline)) void for_sum_lanes(std::int64_t n, Body body) {
  constexpr int kVecs = SumLanes::kVecs;
  std::int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) body(i + v * kWidth, Whole(), v);
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v, i += kWidth) {
    // The last elements fill only a part of the 64 lanes. Partial loads give +0 in the others.
    if (i < n) body(i, Part(n - i), v);
  }
}

// SUM64 of n elements; chunk(begin, count) returns the sum of a part of up to 16,384. Above that
// size the results of the chunks are added to their lanes as they arrive, however many there are.
template <class Chunk>
inline __attribute__((always_inline)) float sum64_chunks(std::int64_t n, Chunk chunk) {
  if (n <= kSumChunk) return chunk(0, n);
  float results[kSumLanes] = {};
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; i += kSumChunk, ++count) {
    const float result = chunk(i, smaller(kSumChunk, n - i));
    results[count % kSumLanes] = results[count % kSumLanes] + result;
  }
  SumLanes lanes;
  for (int v = 0; v < SumLanes::kVecs; ++v) lanes.sum[v] = add(zero(), load(results + v * kWidth));
  return lanes.fold();
}

// Returns SUM64 of x.
inline float sum64(std::int64_t n, const float* x) {
  return sum64_chunks(n, [x](std::int64_t begin, std::int64_t count) {
    SumLanes lanes;
    for_sum_lanes(count, [&](std::int64_t i, auto at, int v) {
      lanes.sum[v] = add(lanes.sum[v], at.load(x + begin + i));
    });
    return lanes.fold();
  });
}

// Returns SUM64 of a * b with products as fma.
inline float sum64_products(std::int64_t n, const float* a, const float* b) {
  return sum64_chunks(n, [a, b](std::int64_t begin, std::int64_t count) {
    SumLanes lanes;
    for_sum_lanes(count, [&](std::int64_t i, auto at, int v) {
      lanes.sum[v] = fma(at.load(a + begin + i), at.load(b + begin + i), lanes.sum[v]);
    });
    return lanes.fold();
  });
}

// Returns the maximum by `max < x ? x : max` from -inf. (If the maximum is a zero, its sign does
// not matter to the differences that are taken with it.)
inline float row_max(std::int64_t n, const float* x) {
  const Vec lowest = set(-kInfinity);
  Vec best = lowest;
  for_vectors(n, [&](std::int64_t i, auto at) {
    best = larger_of(best, at.keep_or(at.load(x + i), lowest));
  });
  return largest_lane(best);
}

}  // namespace
}  // namespace es::gpu
