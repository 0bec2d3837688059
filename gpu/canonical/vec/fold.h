#pragma once
// Reductions along rows and down columns, and running sums.
#include "gpu/canonical/vec/functions.h"
#include "gpu/canonical/vec/reduce.h"

#include "gpu/canonical/fold_math.h"

namespace es::gpu {
namespace {

inline void sum_rows_64(std::int64_t rows, std::int64_t n, const float* x, float* y) {
  for (std::int64_t r = 0; r < rows; ++r) y[r] = sum64(n, x + r * n);
}

template <Fold kFold>
float fold_row(std::int64_t n, const float* x) {
  constexpr int kVecs = SumLanes::kVecs;
  const Vec identity = set(fold_identity<kFold>());
  Vec lanes[kVecs];
  for (Vec& lane : lanes) lane = identity;
  for_sum_lanes(n, [&](std::int64_t i, auto at, int v) {
    // Lanes beyond the end of the row get the identity, which changes no result.
    lanes[v] = combined<kFold>(lanes[v], at.keep_or(at.load(x + i), identity));
  });
  float values[kSumLanes];
  for (int v = 0; v < kVecs; ++v) store(values + v * kWidth, lanes[v]);
  for (std::int64_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (std::int64_t j = 0; j < half; ++j)
      values[j] = combined<kFold>(values[j], values[j + half]);
  }
  return folded<kFold>(values[0]);
}

inline void fold_rows(Fold fold, std::int64_t rows, std::int64_t n, const float* x, float* y) {
  with_fold(fold, [=](auto kind) {
    for (std::int64_t r = 0; r < rows; ++r) y[r] = fold_row<decltype(kind)::value>(n, x + r * n);
  });
}

inline void fold_columns(Fold fold, std::int64_t rows, std::int64_t cols, std::int64_t col_begin,
                         std::int64_t col_end, const float* x, float* y) {
  with_fold(fold, [=](auto kind) {
    constexpr Fold kFold = decltype(kind)::value;
    for_columns<4>(col_end - col_begin, [=](std::int64_t i, auto at, auto vecs) {
      constexpr int kVecs = decltype(vecs)::value;
      const std::int64_t c = col_begin + i;
      Vec best[kVecs];
      for (Vec& b : best) b = set(fold_identity<kFold>());
      for (std::int64_t r = 0; r < rows; ++r) {
        for (int v = 0; v < kVecs; ++v)
          best[v] = combined<kFold>(best[v], at.load(x + r * cols + c + v * kWidth));
      }
      for (int v = 0; v < kVecs; ++v) at.store(y + c + v * kWidth, folded<kFold>(best[v]));
    });
  });
}

inline void best_indices(Fold fold, std::int64_t rows, std::int64_t n, const float* x,
                         std::int32_t* y) {
  for (std::int64_t r = 0; r < rows; ++r) y[r] = best_index(fold, n, x + r * n);
}

// Vectors go over neighbouring chains. A single chain has nothing to share.
inline void running_sums(std::int64_t count, std::int64_t n, std::int64_t inner, bool reverse,
                         const float* x, float* y) {
  for (std::int64_t i = 0; i < count; ++i, x += n * inner, y += n * inner) {
    if (inner == 1) {
      running_sum(n, 1, reverse, x, y);
      continue;
    }
    const std::int64_t first = reverse ? (n - 1) * inner : 0, step = reverse ? -inner : inner;
    copy_floats(y + first, x + first, inner);
    for (std::int64_t j = 1; j < n; ++j) {
      const std::int64_t at = first + j * step;
      for_vectors(inner, [=](std::int64_t c, auto part) {
        part.store(y + at + c, add(part.load(y + at - step + c), part.load(x + at + c)));
      });
    }
  }
}

}  // namespace
}  // namespace es::gpu
