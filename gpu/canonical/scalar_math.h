#pragma once
// Scalar arithmetic of the canonical order: the operations on one element. The scalar kernels use
// it, and the vector kernels use it for values that exist once for each row.
//
// Everything is in an unnamed namespace on purpose. Files that are compiled for different
// instruction sets include this header. Internal linkage prevents the linker from merging their
// copies into one that the processor may be unable to execute.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "gpu/canonical/coefficients.h"
#include "gpu/canonical/on_device.h"
#include "gpu/canonical/order.h"

namespace es::gpu {
namespace {

ES_HD inline std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
ES_HD inline std::int64_t larger(std::int64_t a, std::int64_t b) {
  return a < b ? b : a;
}
ES_HD inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
ES_HD inline std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return ceil_div(a, b) * b;
}

// Returns a * b + c with one rounding. It is one instruction if the file is compiled with -mfma.
ES_HD inline float fma(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}
ES_HD inline float sqrt(float x) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}
// G4: a mean is multiplied by this quotient.
ES_HD inline float recip(std::int64_t n) {
  return 1.0f / static_cast<float>(n);
}

// --- G5, choices by comparison: a NaN that is compared, or that the choice would leave out, is the
// result.
ES_HD inline bool is_nan(float x) {
  return x != x;
}
// x > 0 ? x : +0
ES_HD inline float positive_part(float x) {
  return x <= 0.0f ? 0.0f : x;
}
// test > 0 ? value : +0
ES_HD inline float keep_positive(float value, float test) {
  if (test > 0.0f) return value;
  if (is_nan(test)) return test;
  return is_nan(value) ? value : 0.0f;
}
// test > 0 ? value : value * slope
ES_HD inline float leaky(float value, float test, float slope) {
  if (is_nan(test)) return test;
  return test > 0.0f ? value : value * slope;
}
// kept ? value * factor : +0
ES_HD inline float keep_scaled(bool kept, float value, float factor) {
  return kept || is_nan(value) ? value * factor : 0.0f;
}
// Returns whether `value` replaces `best` as the maximum. The first of equal values stays, and the
// first NaN stays for good.
ES_HD inline bool takes_over(float best, float value) {
  return best < value || (is_nan(value) && !is_nan(best));
}

// Returns c0 + c1 x + ... with the coefficients from kFirst on, by Horner's rule: one fma for each
// but the last. The coefficients are a template argument, because GPU code cannot read arrays of
// the host.
template <const auto& kCoefficients, std::size_t kFirst = 0>
ES_HD inline float polynomial(float x) {
  constexpr float c = kCoefficients[kFirst];
  if constexpr (kFirst + 1 == std::size(kCoefficients)) {
    return c;
  } else {
    return fma(polynomial<kCoefficients, kFirst + 1>(x), x, c);
  }
}

// E^x as (1 + r * p) * 2^n, where x is clamped to the range in which the result is neither +0 nor
// +inf. A NaN stays NaN.
struct ExpParts {
  float r, p;
  std::int32_t n;
};

ES_HD inline ExpParts exp_parts(float x) {
  x = kExpHighest < x ? kExpHighest : x;
  x = x < kExpLowest ? kExpLowest : x;  // a NaN passes both comparisons
  // N is x / ln 2 rounded to the nearest integer: adding kExpMagic leaves n in the low mantissa
  // bits.
  const float shifted = fma(x, kExpLog2E, kExpMagic);
  const float n = shifted - kExpMagic;
  float r = fma(n, -kExpLn2High, x);
  r = fma(n, -kExpLn2Low, r);
  const float p = polynomial<kExpPoly>(r);
  return {r, fma(p, r, 1.0f),
          static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - kExpMagicBits)};
}

// Returns x * 2^n for n in [-150, 128] as a product with two powers of two. The first product is
// exact, so only the second one rounds.
ES_HD inline float times_power_of_two(float x, std::int32_t n) {
  const auto exponent = static_cast<std::uint32_t>(n), half = static_cast<std::uint32_t>(n >> 1);
  const float first = std::bit_cast<float>((half + 127u) << 23);
  const float second = std::bit_cast<float>((exponent - half + 127u) << 23);
  return (x * first) * second;
}

// EXP: e^x within 1 ulp. EXP(NaN) = NaN, EXP(x < -103.97) = +0, EXP(x > 88.72) = +inf. Results
// below the normal range are rounded once.
ES_HD inline float canonical_exp(float x) {
  const ExpParts e = exp_parts(x);
  return times_power_of_two(fma(e.p, e.r, 1.0f), e.n);
}

// LOG: the natural logarithm within 1.1 ulp. LOG(+-0) = -inf, LOG(x < 0) = NaN, LOG(+inf) = +inf,
// LOG(NaN) = NaN.
ES_HD inline float canonical_log(float x) {
  if (!(0.0f < x)) return x == 0.0f ? -kInfinity : kNaN;
  if (x == kInfinity) return x;
  const bool subnormal = x < kSmallestNormal;
  const float y = subnormal ? x * kTwoTo23 : x;
  // y = mantissa * 2^k with mantissa in [2/3, 4/3).
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(y);
  const std::uint32_t k_bits = (bits - kLogTwoThirdsBits) & kExponentMask;
  const float mantissa = std::bit_cast<float>(bits - k_bits);
  const float k =
      static_cast<float>(static_cast<std::int32_t>(k_bits) >> 23) + (subnormal ? -23.0f : 0.0f);
  const float f = mantissa - 1.0f;
  const float square = f * f;
  const float q = polynomial<kLogPoly>(f);
  const float r = fma(fma(q, f, -0.5f), square, f);
  return fma(k, kLn2, r);
}

ES_HD inline float absolute(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffu);
}
ES_HD inline float with_sign(float magnitude, float sign) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(magnitude) & 0x7fffffffu) |
                              (std::bit_cast<std::uint32_t>(sign) & 0x80000000u));
}

// ERF: the error function within 1.4 ulp. ERF(+-inf) = +-1, ERF(-0) = -0, ERF(NaN) = NaN.
ES_HD inline float canonical_erf(float x) {
  const float t = absolute(x);
  if (t < kErfSmall) {
    const float square = x * x;
    const float p = polynomial<kErfSmallPoly>(square);
    return fma(p, x, x);
  }
  const float u = kErfHighest < t ? kErfHighest : t;
  const float q = polynomial<kErfLargePoly>(u);
  return with_sign(1.0f - canonical_exp(q), x);
}

// TANH: the hyperbolic tangent within 1.4 ulp. TANH(+-inf) = +-1, TANH(-0) = +0, TANH(NaN) = NaN.
ES_HD inline float canonical_tanh(float x) {
  const float t = absolute(x);
  if (t < kTanhSmall) {
    const float square = x * x;
    const float p = polynomial<kTanhPoly>(square);
    return fma(p * square, x, x);
  }
  return with_sign(1.0f - 2.0f / (canonical_exp(t + t) + 1.0f), x);
}

// SIGMOID: 1 / (1 + e^-x) within 1.4 ulp. With e = e^-|x| it is 1 / (1 + e), or e / (1 + e) for
// negative x. e and 1 + e are each represented by two floats, and the quotient is corrected once.
// SIGMOID(inf) = 1, SIGMOID(-inf) = +0, SIGMOID(NaN) = NaN.
ES_HD inline float canonical_sigmoid(float x) {
  const ExpParts parts = exp_parts(-absolute(x));
  const float high = fma(parts.p, parts.r, 1.0f);  // e = (high + low) * 2^n
  const float low = fma(parts.p, parts.r, 1.0f - high);
  const float e = times_power_of_two(high, parts.n);
  const float sum = 1.0f + e;  // 1 + e = sum + rest
  const float rest = (e - (sum - 1.0f)) + times_power_of_two(low, parts.n);
  const bool negative = x < 0.0f;
  const float numerator = negative ? high : 1.0f;
  const float inverse = 1.0f / sum;
  const float quotient = numerator * inverse;
  const float remainder = fma(-quotient, sum, numerator) + (negative ? low : 0.0f);
  const float y = fma(fma(-quotient, rest, remainder), inverse, quotient);
  return times_power_of_two(y, negative ? parts.n : 0);
}

// GELU: x/2 * (1 + erf(x / sqrt 2)). The sum cancels for negative x, so the error bound is relative
// to x and not to the result. GELU(inf) = inf, GELU(-inf) = NaN, GELU(-0) = +0.
ES_HD inline float canonical_gelu(float x) {
  const float half = x * 0.5f;
  return fma(half, canonical_erf(x * kSqrtHalf), half);
}

// The derivative of GELU: the normal distribution function at x plus x times the normal density.
// NaN at +-inf.
ES_HD inline float canonical_gelu_gradient(float x) {
  const float density = canonical_exp((x * -0.5f) * x) * kNormalDensity;
  return fma(x, density, fma(0.5f, canonical_erf(x * kSqrtHalf), 0.5f));
}

// Binary cross entropy of a logit: max(x, 0) - x t + log(1 + e^-|x|).
ES_HD inline float canonical_bce(float x, float target) {
  return fma(-x, target, positive_part(x)) + canonical_log(1.0f + canonical_exp(-absolute(x)));
}

// Returns the number of rows with a label that takes part in a cross entropy, at least 1.
inline std::int64_t labelled_rows(std::int64_t rows, const std::int32_t* labels) {
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < rows; ++r) count += labels[r] >= 0 ? 1 : 0;
  return larger(count, 1);
}

}  // namespace
}  // namespace es::gpu
