#pragma once
// Updates of parameters, for whole vectors: the operations of update_math.h in the same order.
#include "gpu/canonical/vec/reduce.h"

namespace es::gpu {
namespace {

enum class Momentum { kNone, kPlain, kNesterov };

template <Momentum kMomentum>
void sgd_floats(std::int64_t n, const float* grad_sum, float grad_scale, float lr, float momentum,
                float weight_decay, float* p, float* v) {
  const Vec scales = set(grad_scale), decay = set(weight_decay);
  const Vec keep = set(momentum), rate = set(-lr);
  for_vectors(n, [=](std::int64_t i, auto at) {
    const Vec parameter = at.load(p + i);
    Vec step = fma(decay, parameter, mul(at.load(grad_sum + i), scales));
    if constexpr (kMomentum != Momentum::kNone) {
      const Vec velocity = fma(keep, at.load(v + i), step);
      at.store(v + i, velocity);
      step = kMomentum == Momentum::kNesterov ? fma(keep, velocity, step) : velocity;
    }
    at.store(p + i, fma(rate, step, parameter));
  });
}

inline void sgd(std::int64_t n, const float* grad_sum, float grad_scale, float lr, float momentum,
                float weight_decay, bool nesterov, float* p, float* v) {
  const auto kernel = v == nullptr ? sgd_floats<Momentum::kNone>
                      : nesterov   ? sgd_floats<Momentum::kNesterov>
                                   : sgd_floats<Momentum::kPlain>;
  kernel(n, grad_sum, grad_scale, lr, momentum, weight_decay, p, v);
}

template <bool kWeightDecay>
void adam_floats(std::int64_t n, const float* grad_sum, float grad_scale, const AdamStep& s,
                 float* p, float* m, float* v) {
  const Vec scales = set(grad_scale), weight_decay = set(s.weight_decay), decay = set(s.decay);
  const Vec beta1 = set(s.beta1), beta2 = set(s.beta2), rate = set(-s.lr_over_bc1);
  const Vec rest1 = set(s.one_minus_beta1), rest2 = set(s.one_minus_beta2);
  const Vec rsqrt_bc2 = set(s.rsqrt_bc2), epsilon = set(s.epsilon);
  for_vectors(n, [=](std::int64_t i, auto at) {
    const Vec parameter = at.load(p + i);
    Vec g = mul(at.load(grad_sum + i), scales);
    if constexpr (kWeightDecay) g = fma(weight_decay, parameter, g);
    const Vec first = fma(beta1, at.load(m + i), mul(rest1, g));
    const Vec second = fma(beta2, at.load(v + i), mul(rest2, mul(g, g)));
    at.store(m + i, first);
    at.store(v + i, second);
    const Vec step = div(first, fma(sqrt(second), rsqrt_bc2, epsilon));
    at.store(p + i, fma(rate, step, mul(parameter, decay)));  // decay = 1 changes nothing
  });
}

inline void adam(std::int64_t n, const float* grad_sum, float grad_scale, const AdamStep& s,
                 float* p, float* m, float* v) {
  // Without weight decay the fma is left out and not computed with 0, since fma(0, p, -0) is +0 for
  // a positive p. adam_update() has the same case.
  (s.weight_decay != 0.0f ? adam_floats<true> : adam_floats<false>)(n, grad_sum, grad_scale, s, p,
                                                                    m, v);
}

inline float sum_of_squares(std::int64_t n, const float* x) {
  return sum64_products(n, x, x);
}

// The product x * 0 is NaN if x is infinite or NaN, and a NaN stays in the sum.
inline bool any_non_finite(std::int64_t n, const float* x) {
  constexpr int kVecs = 8;
  // The order of this sum is free, because only NaN or not NaN is asked for. Eight sums keep the
  // units for fma busy.
  Vec sum[kVecs];
  for (Vec& s : sum) s = zero();
  for_columns<kVecs>(n, [&](std::int64_t i, auto at, auto vecs) {
#pragma GCC unroll 8
    for (int v = 0; v < decltype(vecs)::value; ++v) {
      sum[v] = fma(at.load(x + i + v * kWidth), zero(), sum[v]);
    }
  });
  for (int v = 1; v < kVecs; ++v) sum[0] = add(sum[0], sum[v]);
  return any_nan(sum[0]);
}

}  // namespace
}  // namespace es::gpu
