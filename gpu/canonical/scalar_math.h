#pragma once
// Scalar arithmetic of the canonical order: what one element goes through. Used by the scalar
// kernels, and by the vector kernels where a value exists once per row.
//
// Everything is in an unnamed namespace on purpose. Files compiled for different instruction sets
// include this header; internal linkage keeps the linker from merging their copies into one that
// the processor cannot execute.
#include <bit>
#include <cstdint>

#include "gpu/canonical/coefficients.h"
#include "gpu/canonical/order.h"

namespace es::gpu {
namespace {

inline std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
inline std::int64_t larger(std::int64_t a, std::int64_t b) {
  return a < b ? b : a;
}
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
inline std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return ceil_div(a, b) * b;
}

// One rounding. An instruction where the file is compiled with -mfma.
inline float fused(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
inline float square_root(float x) {
  return __builtin_sqrtf(x);
}
// G4.
inline float recip(std::int64_t n) {
  return 1.0f / static_cast<float>(n);
}

// EXP: e^x within 1 ulp. EXP(NaN) = NaN, EXP(x < -103.97) = +0, EXP(x > 88.72) = +inf; results
// below the normal range are rounded once.
inline float canonical_exp(float x) {
  x = kExpHighest < x ? kExpHighest : x;
  x = x < kExpLowest ? kExpLowest : x;  // NaN passes both comparisons
  // n = x / ln 2 to the nearest integer: adding kExpMagic leaves n in the low mantissa bits.
  const float shifted = fused(x, kExpLog2E, kExpMagic);
  const float n = shifted - kExpMagic;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) - kExpMagicBits;
  float r = fused(n, -kExpLn2High, x);
  r = fused(n, -kExpLn2Low, r);
  float p = kExpPoly[4];
  for (int i = 3; i >= 0; --i) p = fused(p, r, kExpPoly[i]);
  p = fused(p, r, 1.0f);
  p = fused(p, r, 1.0f);
  // p * 2^n as two powers of two: the first product is exact, so only the second one rounds.
  const std::uint32_t half = static_cast<std::uint32_t>(static_cast<std::int32_t>(exponent) >> 1);
  const float first = std::bit_cast<float>((half + 127u) << 23);
  const float second = std::bit_cast<float>((exponent - half + 127u) << 23);
  return (p * first) * second;
}

// LOG: the natural logarithm within 1.1 ulp. LOG(+-0) = -inf, LOG(x < 0) = NaN, LOG(+inf) = +inf,
// LOG(NaN) = NaN.
inline float canonical_log(float x) {
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
  float q = kLogPoly[6];
  for (int i = 5; i >= 0; --i) q = fused(q, f, kLogPoly[i]);
  const float r = fused(fused(q, f, -0.5f), square, f);
  return fused(k, kLn2, r);
}

}  // namespace
}  // namespace es::gpu
