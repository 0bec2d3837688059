#pragma once
// The numbers of an exact product (G1X of docs/reference/operators.md). In a chunk of 512 k, a row
// of A and a column of B become integers of P bits and a sign with one scale each. The sum of their
// products is exact, so its order is free.
//
// The formulas are in an unnamed namespace for the reason given in scalar_math.h.
#include <bit>

#include "gpu/canonical/arithmetic.h"
#include "gpu/canonical/bf16.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu {
namespace {

// A scale is at least 2^(kLeastExponent - P). So the first of the two products with scales is a
// normal number, and only the second one rounds.
constexpr std::int32_t kLeastExponent = -100;

// P.
ES_HD inline std::int32_t integer_bits(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kX15 ? 15 : 22;
}

// REQUIRES: -126 <= exponent <= 127.
ES_HD inline float power_of_two(std::int32_t exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

// The bits of a number's magnitude, which have the order of the magnitudes. Those of a NaN are the
// largest ones.
ES_HD inline std::uint32_t magnitude_bits(float x) {
  return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
}

// How the numbers of a chunk of a row become integers, and the scale of these.
struct ExactScale {
  float factor;  // 2^(P - e), exact
  float scale;   // 2^(e - P), or NaN if a number of the chunk is not finite
};

// `most` are the bits of the largest magnitude of the chunk, which is less than 2^e.
ES_HD inline ExactScale exact_scale(Arithmetic arithmetic, std::uint32_t most) {
  const std::int32_t bits = integer_bits(arithmetic);
  std::int32_t e = static_cast<std::int32_t>(most >> 23) - 126;
  if (e < kLeastExponent) e = kLeastExponent;
  return {power_of_two(bits - e),
          most < kInfinityBits ? power_of_two(e - bits) : std::bit_cast<float>(kQuietNanBits)};
}

// Returns the integer of a number, which fp32 holds exactly: the nearest one, ties to even, of
// magnitude 2^P - 1 at most. In a chunk that is not finite all integers are 0.
ES_HD inline float exact_integer(Arithmetic arithmetic, float x, const ExactScale& s) {
  if (is_nan(s.scale)) return 0.0f;
  // The unit of this number in fp32 is 1, and it is even. The magnitude of x * factor is less than
  // 2^22.
  constexpr float kRounds = 0x1.8p23f;
  const float q = (x * s.factor + kRounds) - kRounds;
  const auto largest = static_cast<float>((1 << integer_bits(arithmetic)) - 1);
  return q > largest ? largest : q < -largest ? -largest : q;
}

// Returns the result of a chunk. `sum` is the exact sum, rounded to fp32 once.
ES_HD inline float exact_result(float sum, float scale_of_a, float scale_of_b) {
  return sum * scale_of_a * scale_of_b;
}

// Every NaN of a result has the same bits.
ES_HD inline float with_one_nan(float x) {
  return is_nan(x) ? std::bit_cast<float>(kQuietNanBits) : x;
}

}  // namespace
}  // namespace es::gpu
