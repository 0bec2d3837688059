#pragma once
// The division of a large angle by pi/2, for SIN and COS (functions_math.h).
#include "gpu/canonical/scalar_math.h"

namespace es::gpu {
namespace {

// x = n * pi/2 + r + low, where |r| is at most about pi/4. Only the two low bits of n count.
struct BigTurn {
  float r, low;
  std::int32_t n;
};

// The division for |x| >= 2^17 (Payne and Hanek): 96 bits of 2/pi, beginning with those whose
// product with x can change n mod 4, times the mantissa, as exact integers. `part` counts units of
// 2^-62 quarter turns. NaN for infinite x and NaN.
ES_HD inline BigTurn big_turn(float x) {
  constexpr std::uint32_t kTwoOverPiBits[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                              0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
  constexpr float kUnit = 0x1.921fb6p-62f, kUnitLow = -0x1.777a5cp-87f;  // pi/2 * 2^-62
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), exponent = (bits >> 23) & 255u;
  if (exponent == 255) return {kNaN, 0.0f, 0};
  const std::uint64_t mantissa = (bits & 0x7fffffu) | 0x800000u;
  const std::uint32_t first = exponent - 120u;  // bit of the table, in [24, 134]
  std::uint64_t window[3] = {};
  ES_UNROLL
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::uint32_t at = (first >> 5) + i;
    const std::uint64_t pair = (std::uint64_t{kTwoOverPiBits[at]} << 32) | kTwoOverPiBits[at + 1];
    window[i] = (pair >> (32u - (first & 31u))) & 0xffffffffu;
  }
  const std::uint64_t product =
      ((mantissa * window[0]) << 32) + mantissa * window[1] + ((mantissa * window[2]) >> 32);
  const std::uint64_t n = (product + (std::uint64_t{1} << 61)) >> 62;
  const auto part = static_cast<std::int64_t>(product - (n << 62));
  const auto high = static_cast<float>(part);
  const auto rest = static_cast<float>(part - static_cast<std::int64_t>(high));
  const float r = high * kUnit;
  const float low = fma(high, kUnitLow, fma(rest, kUnit, fma(high, kUnit, -r)));
  const auto turn = static_cast<std::int32_t>(n);
  return bits >> 31 != 0 ? BigTurn{-r, -low, -turn} : BigTurn{r, low, turn};
}

// Replaces the parts of elements whose x is not below kTurnLimit.
ES_HD inline void turn_far(float x, float& r, float& low, std::int32_t& n) {
  if (absolute(x) < kTurnLimit) return;
  const BigTurn big = big_turn(x);
  r = big.r;
  low = big.low;
  n = big.n;
}

}  // namespace
}  // namespace es::gpu
