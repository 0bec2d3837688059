#pragma once
// Reductions other than sums: how two values become one, and what every kernel class computes by
// the same loop. V is a float (one_lane.h) or a Vec.
#include "gpu/canonical/element_math.h"
#include "gpu/canonical/kernels.h"

namespace es::gpu {
namespace {

template <Fold kFold>
ES_HD constexpr float fold_identity() {
  if constexpr (kFold == Fold::kProduct) return 1.0f;
  return kFold == Fold::kMaximum ? -kInfinity : kInfinity;
}

template <Fold kFold, class V>
ES_HD inline V combined(V a, V b) {
  if constexpr (kFold == Fold::kProduct) {
    return mul(a, b);
  } else if constexpr (kFold == Fold::kMaximum) {
    return maximum(a, b);
  } else {
    return minimum(a, b);
  }
}

// The last operation of a reduction: a maximum or minimum of -0 becomes +0, because the order in
// which zeros are compared is not defined.
template <Fold kFold, class V>
ES_HD inline V folded(V v) {
  return kFold == Fold::kProduct ? v : add(v, like(v, 0.0f));
}

template <Fold kValue>
struct FoldConstant {
  static constexpr Fold value = kValue;
};
template <class Function>
ES_HD inline void with_fold(Fold fold, Function&& f) {
  if (fold == Fold::kProduct) return f(FoldConstant<Fold::kProduct>());
  if (fold == Fold::kMaximum) return f(FoldConstant<Fold::kMaximum>());
  f(FoldConstant<Fold::kMinimum>());
}

// Returns the index of the largest or smallest of n floats: the first of equal ones, or the first
// NaN.
ES_HD inline std::int32_t best_index(Fold fold, std::int64_t n, const float* x) {
  const float sign = fold == Fold::kMaximum ? 1.0f : -1.0f;
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < n; ++i) {
    if (takes_over(sign * x[best], sign * x[i])) best = i;
  }
  return static_cast<std::int32_t>(best);
}

// A running sum of n elements that are `stride` floats apart, from the first or from the last one.
ES_HD inline void running_sum(std::int64_t n, std::int64_t stride, bool reverse, const float* x,
                              float* y) {
  const std::int64_t first = reverse ? (n - 1) * stride : 0, step = reverse ? -stride : stride;
  float sum = x[first];
  y[first] = sum;
  for (std::int64_t i = 1; i < n; ++i) {
    sum = sum + x[first + i * step];
    y[first + i * step] = sum;
  }
}

}  // namespace
}  // namespace es::gpu
