#pragma once
// Softmax along rows. A row of up to 64 elements, one row of lanes of SUM64, stays in registers.
#include "gpu/canonical/attention_math.h"
#include "gpu/canonical/vec/math.h"
#include "gpu/canonical/vec/reduce.h"

namespace es::gpu {
namespace {

// What the probabilities of a row are computed from: EXP(x - shift) * scale.
struct RowStats {
  float shift, scale;
};

// The vectors of rows of c <= 64 elements.
class ShortRow {
 public:
  static constexpr int kVecs = SumLanes::kVecs;
  explicit ShortRow(std::int64_t c) : used_(static_cast<int>(ceil_div(c, kWidth))) {
    for (int v = 0; v < kVecs; ++v) in_row_[v] = first_lanes(larger(0, c - v * kWidth));
  }

  // Computes the softmax of the row whose vector at `offset` is score(offset, mask of the row).
  // Each vector of the result goes to finish(offset, mask of the row, vector).
  template <class Score, class Finish>
  inline __attribute__((always_inline)) RowStats softmax(Score score, Finish finish) const {
    const Vec lowest = set(-kInfinity);
    Vec x[kVecs] = {}, best = lowest;
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      if (v >= used_) break;
      x[v] = first_or(score(v * kWidth, in_row_[v]), lowest, in_row_[v]);
      best = larger_of(best, x[v]);
    }
    const float shift = softmax_shift(largest_lane(best));
    SumLanes lanes;
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      if (v >= used_) break;
      x[v] = canonical_exp(sub(x[v], set(shift)));
      // Lanes behind the last element contain -infinity, whose EXP is +0.
      lanes.sum[v] = add(lanes.sum[v], x[v]);
    }
    const float scale = softmax_scale(lanes.fold());
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      if (v >= used_) break;
      finish(v * kWidth, in_row_[v], mul(x[v], set(scale)));
    }
    return {shift, scale};
  }

  // The same for the gradient of a softmax whose result is value(offset, mask of the row), with dy
  // = slope(offset, mask of the row). finish() also gets the vector of the result of the softmax.
  template <class Value, class Slope, class Finish>
  inline __attribute__((always_inline)) void gradient(Value value_at, Slope slope,
                                                      Finish finish) const {
    Vec value[kVecs] = {}, dy[kVecs] = {};
    SumLanes lanes;
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      if (v >= used_) break;
      value[v] = keep_first(value_at(v * kWidth, in_row_[v]), in_row_[v]);
      dy[v] = slope(v * kWidth, in_row_[v]);
      lanes.sum[v] = fma(dy[v], value[v], lanes.sum[v]);
    }
    const Vec sum = set(lanes.fold());
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      if (v >= used_) break;
      finish(v * kWidth, in_row_[v], value[v], mul(value[v], sub(dy[v], sum)));
    }
  }

 private:
  int used_;
  Mask in_row_[kVecs];
};

// y = EXP(x - shift); y may be x. Returns SUM64(y). The row is read once.
inline float exponentials(std::int64_t c, const float* x, float shift, float* y) {
  const Vec shifts = set(shift);
  return sum64_chunks(c, [=](std::int64_t begin, std::int64_t count) {
    SumLanes lanes;
    for_sum_lanes(count, [&](std::int64_t i, auto at, int v) {
      const Vec e = canonical_exp(sub(at.load(x + begin + i), shifts));
      at.store(y + begin + i, e);
      lanes.sum[v] = add(lanes.sum[v], at.keep(e));
    });
    return lanes.fold();
  });
}

inline void softmax_long_row(std::int64_t c, const float* x, float* y) {
  const float sum = exponentials(c, x, softmax_shift(row_max(c, x)), y);
  const Vec factor = set(softmax_scale(sum));
  for_vectors(c, [=](std::int64_t i, auto at) { at.store(y + i, mul(at.load(y + i), factor)); });
}

inline void softmax_fwd(std::int64_t rows, std::int64_t c, const float* x, float* y) {
  const ShortRow row(smaller(c, kSumLanes));
  for (std::int64_t r = 0; r < rows; ++r, x += c, y += c) {
    if (c > kSumLanes) {
      softmax_long_row(c, x, y);
    } else {
      row.softmax([&](std::int64_t i, Mask m) { return load(x + i, m); },
                  [&](std::int64_t i, Mask m, Vec v) { store_first(y + i, v, c - i, m); });
    }
  }
}

inline void softmax_bwd(std::int64_t rows, std::int64_t c, const float* y, const float* dy,
                        float* dx) {
  const ShortRow row(smaller(c, kSumLanes));
  for (std::int64_t r = 0; r < rows; ++r, y += c, dy += c, dx += c) {
    if (c <= kSumLanes) {
      row.gradient([&](std::int64_t i, Mask m) { return load(y + i, m); },
                   [&](std::int64_t i, Mask m) { return load(dy + i, m); },
                   [&](std::int64_t i, Mask m, Vec, Vec v) { store_first(dx + i, v, c - i, m); });
      continue;
    }
    const Vec sum = set(sum64_products(c, dy, y));
    for_vectors(c, [=](std::int64_t i, auto at) {
      at.store(dx + i, mul(at.load(y + i), sub(at.load(dy + i), sum)));
    });
  }
}

}  // namespace
}  // namespace es::gpu
