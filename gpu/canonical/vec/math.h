#pragma once
// The functions of scalar_math.h for each lane: the same operations in the same order.
#include "gpu/canonical/vec/lanes.h"

namespace es::gpu {
namespace {

struct ExpLanes {
  Vec r, p, n;
};

// REQUIRES: x is in [kExpLowest, kExpHighest], or NaN. Callers clamp arguments that can exceed a
// bound.
inline ExpLanes exp_parts(Vec x) {
  const Vec magic = set(kExpMagic);
  // The addition of `magic` rounds x / ln 2 to an integer, because floats of that size have no
  // fraction.
  const Vec n = sub(fma(x, set(kExpLog2E), magic), magic);
  Vec r = fma(n, set(-kExpLn2High), x);
  r = fma(n, set(-kExpLn2Low), r);
  Vec p = set(kExpPoly[4]);
  for (int i = 3; i >= 0; --i) p = fma(p, r, set(kExpPoly[i]));
  return {r, fma(p, r, set(1.0f)), n};
}

// Each function clamps on one side only, and lets a NaN pass.
inline Vec exp_raised(Vec x) {
  return larger_of(x, set(kExpLowest));
}
inline Vec exp_lowered(Vec x) {
  return smaller_of(x, set(kExpHighest));
}

// Returns EXP of a number within the bounds.
inline Vec bounded_exp(Vec x) {
  const ExpLanes e = exp_parts(x);
  return times_power_of_two(fma(e.p, e.r, set(1.0f)), e.n);
}

// Returns EXP of a number in [-87, 88].
inline Vec normal_exp(Vec x) {
  const ExpLanes e = exp_parts(x);
  return times_normal_power_of_two(fma(e.p, e.r, set(1.0f)), e.n);
}

inline Vec canonical_exp(Vec x) {
  return bounded_exp(exp_raised(exp_lowered(x)));
}

inline Vec canonical_log(Vec x) {
  // A subnormal number has no exponent of its own. It is multiplied by 2^23 here, and 23 is
  // subtracted from the exponent below.
  const Test subnormal = less(x, set(kSmallestNormal));
  const Vec y = select(subnormal, mul(x, set(kTwoTo23)), x);
  const IntVec bits = bits_of(y);
  const IntVec k_bits = bit_and(sub(bits, set_int(static_cast<std::int32_t>(kLogTwoThirdsBits))),
                                set_int(static_cast<std::int32_t>(kExponentMask)));
  const Vec mantissa = from_bits(sub(bits, k_bits));
  const Vec k = add(to_floats(shift_right_23(k_bits)), keep_if(subnormal, set(-23.0f)));
  const Vec f = sub(mantissa, set(1.0f));
  const Vec square = mul(f, f);
  Vec q = set(kLogPoly[6]);
  for (int i = 5; i >= 0; --i) q = fma(q, f, set(kLogPoly[i]));
  const Vec r = fma(fma(q, f, set(-0.5f)), square, f);
  // Every lane computes all cases, and select() chooses among them.
  const Vec finite = select(less(x, set(kInfinity)), fma(k, set(kLn2), r), x);  // inf and NaN stay
  const Vec positive = select(less(x, zero()), set(kNaN), finite);
  return select(equal(x, zero()), set(-kInfinity), positive);
}

inline Vec canonical_erf(Vec x) {
  const Vec t = absolute(x), square = mul(x, x);
  Vec p = set(kErfSmallPoly[5]);
  for (int i = 4; i >= 0; --i) p = fma(p, square, set(kErfSmallPoly[i]));
  const Vec u = smaller_of(t, set(kErfHighest));
  Vec q = set(kErfLargePoly[7]);
  for (int i = 6; i >= 0; --i) q = fma(q, u, set(kErfLargePoly[i]));
  const Vec large = with_sign(sub(set(1.0f), normal_exp(q)), x);  // q is in (-18, 0.001)
  return select(less(t, set(kErfSmall)), fma(p, x, x), large);
}

inline Vec canonical_tanh(Vec x) {
  const Vec t = absolute(x), square = mul(x, x);
  Vec p = set(kTanhPoly[4]);
  for (int i = 3; i >= 0; --i) p = fma(p, square, set(kTanhPoly[i]));
  const Vec e = normal_exp(smaller_of(add(t, t), set(64.0f)));  // From there on `large` is 1.
  const Vec large = sub(set(1.0f), div(set(2.0f), add(e, set(1.0f))));
  return select(less(t, set(kTanhSmall)), fma(mul(p, square), x, x), with_sign(large, x));
}

// Returns SIGMOID(x) from the parts of e^-|x|; times(p, n) is p * 2^n.
template <class Times>
inline __attribute__((always_inline)) Vec sigmoid_of(Vec x, const ExpLanes& parts, Times times) {
  const Vec one = set(1.0f);
  const Vec high = fma(parts.p, parts.r, one);
  const Vec low = fma(parts.p, parts.r, sub(one, high));
  const Vec e = times(high, parts.n);
  const Vec sum = add(one, e);
  const Vec rest = add(sub(e, sub(sum, one)), times(low, parts.n));
  const Test negative = less(x, zero());
  const Vec numerator = select(negative, high, one);
  const Vec inverse = div(one, sum);
  const Vec quotient = mul(numerator, inverse);
  const Vec remainder = add(fma(negate(quotient), sum, numerator), keep_if(negative, low));
  const Vec y = fma(fma(negate(quotient), rest, remainder), inverse, quotient);
  return select(negative, times(y, parts.n), y);
}

inline Vec canonical_sigmoid(Vec x) {
  const ExpLanes parts = exp_parts(exp_raised(negate(absolute(x))));
  if (__builtin_expect(any(less(parts.n, set(-125.0f))), 0))
    return sigmoid_of(x, parts, [](Vec p, Vec n) { return times_power_of_two(p, n); });
  return sigmoid_of(x, parts, [](Vec p, Vec n) { return times_normal_power_of_two(p, n); });
}

inline Vec canonical_gelu(Vec x) {
  const Vec half = mul(x, set(0.5f));
  return fma(half, canonical_erf(mul(x, set(kSqrtHalf))), half);
}

inline Vec canonical_gelu_gradient(Vec x) {
  const Vec exponent = exp_raised(mul(mul(x, set(-0.5f)), x));
  const Vec density = mul(bounded_exp(exponent), set(kNormalDensity));
  const Vec half = set(0.5f);
  return fma(x, density, fma(half, canonical_erf(mul(x, set(kSqrtHalf))), half));
}

inline Vec canonical_bce(Vec x, Vec target) {
  const Vec e = bounded_exp(exp_raised(negate(absolute(x))));
  return add(fma(negate(x), target, positive_part(x)), canonical_log(add(set(1.0f), e)));
}

}  // namespace
}  // namespace es::gpu
