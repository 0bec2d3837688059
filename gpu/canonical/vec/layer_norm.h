#pragma once
#include "gpu/canonical/vec/norm.h"
#include "gpu/canonical/vec/reduce.h"

namespace es::gpu {
namespace {

// Returns SUM64 of (x - mean)^2.
inline float squared_deviations(std::int64_t c, const float* x, float mean) {
  const Vec means = set(mean);
  return sum64_chunks(c, [=](std::int64_t begin, std::int64_t count) {
    SumLanes lanes;
    for_sum_lanes(count, [&](std::int64_t i, auto at, int v) {
      const Vec d = at.keep(sub(at.load(x + begin + i), means));
      lanes.sum[v] = fma(d, d, lanes.sum[v]);
    });
    return lanes.fold();
  });
}

inline void layer_norm_fwd(std::int64_t rows, std::int64_t c, const float* x, const float* gamma,
                           const float* beta, float eps, float* y, float* mean, float* istd) {
  for (std::int64_t r = 0; r < rows; ++r, x += c, y += c) {
    mean[r] = sum64(c, x) * recip(c);
    istd[r] = 1.0f / sqrt(squared_deviations(c, x, mean[r]) * recip(c) + eps);
    const Vec means = set(mean[r]), inverse = set(istd[r]);
    for_vectors(c, [=](std::int64_t i, auto at) {
      const Vec h = mul(sub(at.load(x + i), means), inverse);
      at.store(y + i, fma(h, at.load(gamma + i), at.load(beta + i)));
    });
  }
}

inline std::size_t layer_norm_bwd_workspace_floats(std::int64_t rows, std::int64_t c) {
  return static_cast<std::size_t>(2 * run_count(rows) * c);
}

// One row of the backward pass.
struct LayerNormRow {
  const float *x, *dy, *gamma;
  Vec mean, istd;

  // h = (x - mean) * istd
  template <class Access>
  Vec normalized(std::int64_t i, Access at) const {
    return mul(sub(at.load(x + i), mean), istd);
  }
};

// Adds the row to the sums of dy * h and of dy of its run. Returns through c1 and c2 the SUM64 of t
// = dy * gamma and of t * h.
inline void layer_norm_bwd_sums(const LayerNormRow& row, std::int64_t c, float* run_products,
                                float* run_sums, float* c1, float* c2) {
  float products[kSumLanes];  // of the chunks, if there are more than 16,384 columns
  std::int64_t chunks = 0;
  for (float& p : products) p = 0.0f;
  *c1 = sum64_chunks(c, [&](std::int64_t begin, std::int64_t count) {
    SumLanes sums, sums_of_products;
    for_sum_lanes(count, [&](std::int64_t j, auto at, int v) {
      const std::int64_t i = begin + j;
      const Vec h = at.keep(row.normalized(i, at)), dy = at.load(row.dy + i);
      const Vec t = mul(dy, at.load(row.gamma + i));
      at.store(run_products + i, fma(dy, h, at.load(run_products + i)));
      at.store(run_sums + i, add(at.load(run_sums + i), dy));
      sums.sum[v] = add(sums.sum[v], t);
      sums_of_products.sum[v] = fma(t, h, sums_of_products.sum[v]);
    });
    float& lane = products[chunks++ % kSumLanes];
    lane = lane + sums_of_products.fold();
    return sums.fold();
  });
  *c2 = chunks == 1 ? products[0] : sum64(kSumLanes, products);
}

inline void layer_norm_bwd(std::int64_t rows, std::int64_t c, std::int64_t run_begin,
                           std::int64_t run_end, const float* x, const float* dy, const float* mean,
                           const float* istd, const float* gamma, float* dx, float* ws) {
  float *products = ws, *sums = ws + run_count(rows) * c;
  zero_floats(products + run_begin * c, (run_end - run_begin) * c);
  zero_floats(sums + run_begin * c, (run_end - run_begin) * c);
  for (std::int64_t r = run_begin * kColumnRun; r < smaller(rows, run_end * kColumnRun); ++r) {
    const std::int64_t at_row = r * c, run = r / kColumnRun * c;
    const LayerNormRow row{x + at_row, dy + at_row, gamma, set(mean[r]), set(istd[r])};
    float c1, c2;
    layer_norm_bwd_sums(row, c, products + run, sums + run, &c1, &c2);
    const Vec shift = set(c1 * recip(c)), spread = set(-(c2 * recip(c)));
    for_vectors(c, [&](std::int64_t i, auto at) {
      const Vec t = mul(at.load(row.dy + i), at.load(gamma + i));
      at.store(dx + at_row + i, mul(row.istd, fma(row.normalized(i, at), spread, sub(t, shift))));
    });
  }
}

}  // namespace
}  // namespace es::gpu
