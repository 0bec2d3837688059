#pragma once
// EXPM1, LOG1P, SIN, COS and POW, written once for one element and for vectors. V is a float
// (one_lane.h) or a Vec (vec/lanes.h), whose operations have the same names; those of Vec must be
// declared before this file is included (vec/functions.h). Each line is a sequence of IEEE-754
// operations that belongs to the definition (docs/reference/operators.md).
#include "gpu/canonical/one_lane.h"
#include "gpu/canonical/turn_math.h"

namespace es::gpu {
namespace {

// c0 + c1 x + ..., as polynomial() in scalar_math.h.
template <const auto& kCoefficients, std::size_t kFirst = 0, class V>
ES_HD inline V horner(V x) {
  const V c = like(x, kCoefficients[kFirst]);
  if constexpr (kFirst + 1 == std::size(kCoefficients)) {
    return c;
  } else {
    return fma(horner<kCoefficients, kFirst + 1>(x), x, c);
  }
}

// EXPM1: e^x - 1 within 1.5 ulp. With n = round(x / ln 2) and q = e^r - 1 it is
// 2 * (q * 2^(n-1) + (2^(n-1) - 1/2)); n may be 128, for which 2^n is no float. EXPM1(-0) = -0,
// EXPM1(-inf) = -1, EXPM1(+inf) = +inf, EXPM1(NaN) = NaN.
template <class V>
ES_HD inline V canonical_expm1(V x) {
  const V magic = like(x, kExpMagic);
  const V c = larger_of(smaller_of(x, like(x, kExpHighest)), like(x, kExpm1Lowest));
  const V shifted = fma(c, like(x, kExpLog2E), magic), n = sub(shifted, magic);
  const V r = fma(n, like(x, -kExpLn2Low), fma(n, like(x, -kExpLn2High), c));
  const V q = fma(mul(r, r), horner<kExpm1Poly>(r), r);
  const auto exponent = add(bits_of(shifted), ints_like(x, 126 - std::int32_t{kExpMagicBits}));
  const V half = from_bits(shift_left_23(exponent));
  const V y = fma(q, half, sub(half, like(x, 0.5f)));
  return select(less(absolute(x), like(x, kLinearBelow)), x, add(y, y));
}

// LOG1P: log(1 + x) within 1.5 ulp, by the reduction and the polynomial of LOG. y + error = 1 + x
// exactly; the mantissa of y and the error become the two floats f + low. LOG1P(-0) = -0,
// LOG1P(-1) = -inf, LOG1P(x < -1) = NaN, LOG1P(+inf) = +inf, LOG1P(NaN) = NaN.
template <class V>
ES_HD inline V canonical_log1p(V x) {
  const V one = like(x, 1.0f), y = add(one, x), b = sub(y, one);
  const V error = add(sub(one, sub(y, b)), sub(x, b));
  const auto bits = bits_of(y);
  const auto k_bits = bit_and(sub(bits, ints_like(x, static_cast<std::int32_t>(kLogTwoThirdsBits))),
                              ints_like(x, static_cast<std::int32_t>(kExponentMask)));
  const V mantissa = from_bits(sub(bits, k_bits)), k = to_floats(shift_right_23(k_bits));
  const V scale = from_bits(sub(ints_like(x, 0x3f800000), k_bits));  // 2^-k
  // 2^-128 is no float, and from 2^60 on the error is far below an ulp.
  const V rest = keep_if(less(x, like(x, 0x1p60f)), mul(error, scale));
  const V m = sub(mantissa, one), f = add(m, rest), low = sub(rest, sub(f, m));
  const V tail =
      fma(fma(horner<kLogPoly>(f), f, like(x, -0.5f)), mul(f, f), fma(negate(f), low, low));
  const V r = fma(k, like(x, kLn2), add(f, tail));
  const V small = select(less(absolute(x), like(x, kLinearBelow)), x, r);
  const V finite = select(less(x, like(x, kInfinity)), small, x);  // inf and NaN stay
  const V valid = select(less(x, like(x, -1.0f)), like(x, kNaN), finite);
  return select(equal(x, like(x, -1.0f)), like(x, -kInfinity), valid);
}

// x = n * pi/2 + r + low, where |r| is at most about pi/4 and only the two low bits of n count.
//
// Returns the sine of n quarter turns + r + low.
template <class V, class I>
ES_HD inline V sine_of_turn(V r, V low, I n) {
  const V z = mul(r, r), one = like(r, 1.0f);
  const V s = add(r, fma(mul(r, z), horner<kSinPoly>(z), low));
  const V h = mul(z, like(r, 0.5f)), w = sub(one, h), e = sub(sub(one, w), h);
  const V c = add(w, fma(mul(z, z), horner<kCosPoly>(z), fma(negate(r), low, e)));
  return flip_sign(select(is_odd(n), c, s), shift_left_30(n));
}

// Returns the sine of x + `quarters` quarter turns.
template <class V>
ES_HD inline V shifted_sine(V x, std::int32_t quarters) {
  const V magic = like(x, kExpMagic), shifted = fma(x, like(x, kTwoOverPi), magic);
  const V turns = sub(shifted, magic);
  V r = fma(turns, like(x, -kHalfPiMiddle), fma(turns, like(x, -kHalfPiHigh), x));
  V low = mul(turns, like(x, -kHalfPiLow));
  auto n = bits_of(shifted);
  turn_far(x, r, low, n);
  return sine_of_turn(r, low, add(n, ints_like(x, quarters)));
}

// SIN and COS within 1.5 ulp, for every finite x. SIN(-0) = -0; NaN for infinite x and NaN.
template <class V>
ES_HD inline V canonical_sin(V x) {
  return select(less(absolute(x), like(x, kSinLinearBelow)), x, shifted_sine(x, 0));
}
template <class V>
ES_HD inline V canonical_cos(V x) {
  return shifted_sine(x, 1);
}

// Adds b to a, where |a| >= |b| or a is 0: the sum, and its error, exactly.
template <class V>
ES_HD inline V sum_with_error(V a, V b, V& error) {
  const V sum = add(a, b);
  error = sub(b, sub(sum, a));
  return sum;
}

// Returns the natural logarithm of |x| as two floats, for finite x other than 0. With m in
// [sqrt(1/2), sqrt(2)) and s = (m - 1) / (m + 1) it is k ln 2 + 2 s + 2/3 s^3 + s^5 * (c0 + ...);
// all terms but the last one are pairs of floats.
template <class V>
ES_HD inline V log_pair(V x, V& low) {
  const V one = like(x, 1.0f), a = absolute(x);
  const auto subnormal = less(a, like(x, kSmallestNormal));
  const auto bits = bits_of(select(subnormal, mul(a, like(x, kTwoTo23)), a));
  const auto k_bits = bit_and(sub(bits, ints_like(x, kSqrtHalfBits)),
                              ints_like(x, static_cast<std::int32_t>(kExponentMask)));
  const V m = from_bits(sub(bits, k_bits));
  const V k = add(to_floats(shift_right_23(k_bits)), keep_if(subnormal, like(x, -23.0f)));
  // s = s_high + s_low
  const V f = sub(m, one), d = add(m, one), d_low = sub(m, sub(d, one)), inverse = div(one, d);
  const V s_high = mul(f, inverse), minus = negate(s_high);
  const V s_low = mul(fma(minus, d_low, fma(minus, d, f)), inverse);
  const V z = mul(s_high, s_high);
  const V z_low = fma(add(s_high, s_high), s_low, fma(s_high, s_high, negate(z)));
  const V cube = mul(z, s_high);
  const V cube_low = fma(z_low, s_high, fma(z, s_low, fma(z, s_high, negate(cube))));
  const V third = like(x, kTwoThirds), term = mul(cube, third);
  const V term_low =
      fma(cube_low, third, fma(cube, like(x, kTwoThirdsLow), fma(cube, third, negate(term))));
  const V tail = mul(mul(cube, z), horner<kLogTailPoly>(z));
  V error1 = one, error2 = one;
  const V sum1 = sum_with_error(mul(k, like(x, kExpLn2High)), add(s_high, s_high), error1);
  const V sum2 = sum_with_error(sum1, term, error2);
  const V rest = add(add(error1, error2),
                     add(fma(k, like(x, kExpLn2Low), tail), add(add(s_low, s_low), term_low)));
  return sum_with_error(sum2, rest, low);
}

// Returns e^(high + low), for a pair of floats that may lie outside the range of EXP.
template <class V>
ES_HD inline V exp_of_pair(V high, V low) {
  const V one = like(high, 1.0f), magic = like(high, kExpMagic);
  const V c = larger_of(smaller_of(high, like(high, kExpHighest)), like(high, kExpLowest));
  const V n = sub(fma(c, like(high, kExpLog2E), magic), magic);
  V r = fma(n, like(high, -kExpLn2Low), fma(n, like(high, -kExpLn2High), c));
  r = add(r, keep_if(equal(c, high), low));
  return times_power_of_two(fma(fma(horner<kExpPoly>(r), r, one), r, one), n);
}

// POW: x^y within 1.1 ulp, with the special cases of C: 1 if y = 0 or x = 1, even for NaN; NaN for
// negative x and a y that is no integer.
template <class V>
ES_HD inline V canonical_pow(V x, V y) {
  const V one = like(x, 1.0f), zero = like(x, 0.0f), infinity = like(x, kInfinity);
  const V a = absolute(x);
  V low = zero;
  const V high = log_pair(x, low);
  const V product = mul(y, high), error = fma(y, low, fma(y, high, negate(product)));
  V v = exp_of_pair(product, error);
  const auto y_below = less(y, zero);
  v = select(equal(a, zero), select(y_below, infinity, zero), v);
  v = select(equal(a, infinity), select(y_below, zero, infinity), v);
  v = select(equal(a, one), one, v);
  const V half = mul(y, like(x, 0.5f));
  const auto whole = equal(floor_of(y), y), even = equal(floor_of(half), half);
  const auto negative = less(flip_sign(one, bits_of(x)), zero);  // -0 too
  v = select(both(negative, whole), select(even, v, negate(v)), v);
  const auto finite = both(less(a, infinity), less(zero, a));
  v = select(both(negative, finite), select(whole, v, like(x, kNaN)), v);
  v = select(unordered(x, y), like(x, kNaN), v);
  return select(either(equal(y, zero), equal(x, one)), one, v);
}

}  // namespace
}  // namespace es::gpu
