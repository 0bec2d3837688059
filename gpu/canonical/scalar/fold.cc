#include "gpu/canonical/fold_math.h"
#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/scalar/sum64.h"

namespace es::gpu::scalar {
namespace {

// 64 lanes that are folded by halves, as SUM64 of a single chunk.
template <Fold kFold>
float fold_row(std::int64_t n, const float* x) {
  // The order matters for products, whose rounding depends on it. For maxima and minima it can
  // change only the sign of a zero, which folded() removes.
  float lanes[kSumLanes];
  for (float& lane : lanes) lane = fold_identity<kFold>();
  for (std::int64_t i = 0; i < n; ++i) {
    float& lane = lanes[i % kSumLanes];
    lane = combined<kFold>(lane, x[i]);
  }
  for (std::int64_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (std::int64_t j = 0; j < half; ++j) lanes[j] = combined<kFold>(lanes[j], lanes[j + half]);
  }
  return folded<kFold>(lanes[0]);
}

}  // namespace

void sum_rows(std::int64_t rows, std::int64_t n, const float* x, float* y) {
  for (std::int64_t r = 0; r < rows; ++r) y[r] = sum64(n, x + r * n);
}

void fold_rows(Fold fold, std::int64_t rows, std::int64_t n, const float* x, float* y) {
  with_fold(fold, [=](auto kind) {
    for (std::int64_t r = 0; r < rows; ++r) y[r] = fold_row<decltype(kind)::value>(n, x + r * n);
  });
}

void fold_columns(Fold fold, std::int64_t rows, std::int64_t cols, std::int64_t col_begin,
                  std::int64_t col_end, const float* x, float* y) {
  with_fold(fold, [=](auto kind) {
    constexpr Fold kFold = decltype(kind)::value;
    for (std::int64_t c = col_begin; c < col_end; ++c) y[c] = fold_identity<kFold>();
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = col_begin; c < col_end; ++c)
        y[c] = combined<kFold>(y[c], x[r * cols + c]);
    }
    for (std::int64_t c = col_begin; c < col_end; ++c) y[c] = folded<kFold>(y[c]);
  });
}

void best_indices(Fold fold, std::int64_t rows, std::int64_t n, const float* x, std::int32_t* y) {
  for (std::int64_t r = 0; r < rows; ++r) y[r] = best_index(fold, n, x + r * n);
}

void running_sums(std::int64_t count, std::int64_t n, std::int64_t inner, bool reverse,
                  const float* x, float* y) {
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t c = 0; c < inner; ++c)
      running_sum(n, inner, reverse, x + i * n * inner + c, y + i * n * inner + c);
  }
}

}  // namespace es::gpu::scalar
