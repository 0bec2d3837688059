#pragma once
// Instructions on integers that have no vector form (program.h): bits, quotients, shifts, and all
// of integers of 64 bits. No result is rounded but that of kFromLong, so a loop over elements has
// the same bits in every class. The namespace is unnamed for the reason given in scalar_math.h.
#include "gpu/canonical/one_lane.h"
#include "gpu/canonical/program.h"

namespace es::gpu {
namespace {

ES_HD inline std::int64_t long_of(float low, float high) {
  const std::uint64_t upper = word(bits_of(high));
  return static_cast<std::int64_t>(upper << 32 | word(bits_of(low)));
}
ES_HD inline float low_word(std::int64_t v) {
  return from_bits(static_cast<std::int32_t>(static_cast<std::uint32_t>(v)));
}
ES_HD inline float high_word(std::int64_t v) {
  return low_word(v >> 32);
}

// Sums, differences and products are modulo 2^64.
ES_HD inline std::int64_t long_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
ES_HD inline std::int64_t long_difference(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
ES_HD inline std::int64_t long_product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
// The remainder has the sign of the divisor. A divisor of 0 gives 0. Processors trap at the
// quotient of the lowest integer and -1, which is computed as a difference.
ES_HD inline std::int64_t remainder_of(std::int64_t a, std::int64_t b) {
  if (b == 0 || b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
// Rounded down. A divisor of 0 gives 0.
ES_HD inline std::int64_t quotient_of(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return long_difference(0, a);
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
// Beyond the bits of the type a shift to the left gives 0, and one to the right the sign.
ES_HD inline std::int64_t shifted_left(std::int64_t a, std::int64_t by, std::int64_t bits) {
  if (by < 0 || by >= bits) return 0;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) << by);
}
ES_HD inline std::int64_t shifted_right(std::int64_t a, std::int64_t by, std::int64_t bits) {
  return a >> (by < 0 || by >= bits ? bits - 1 : by);
}

// Floats in [-2^63, 2^63) have an integer of 64 bits; NaN has none.
ES_HD inline bool beyond_long(float v) {
  return !(v >= -0x1p63f && v < 0x1p63f);
}
// The integer part of a float; NaN gives 0, and the other floats without an integer saturate.
ES_HD inline std::int64_t long_from(float v) {
  if (!beyond_long(v)) return static_cast<std::int64_t>(v);
  if (is_nan(v)) return 0;
  return v > 0.0f ? INT64_MAX : INT64_MIN;
}

// Integers of 32 bits.
template <ElementOp kOp>
ES_HD inline float short_words(std::int32_t a, std::int32_t b) {
  if constexpr (kOp == ElementOp::kAndInt)
    return from_bits(a & b);
  else if constexpr (kOp == ElementOp::kOrInt)
    return from_bits(a | b);
  else if constexpr (kOp == ElementOp::kXorInt)
    return from_bits(a ^ b);
  else if constexpr (kOp == ElementOp::kDivideInt)
    return low_word(quotient_of(a, b));
  else if constexpr (kOp == ElementOp::kRemainderInt)
    return low_word(remainder_of(a, b));
  else if constexpr (kOp == ElementOp::kShiftLeftInt)
    return low_word(shifted_left(a, b, 32));
  else
    return low_word(shifted_right(a, b, 32));  // kShiftRightInt
}

// Integers of 64 bits.
template <ElementOp kOp>
ES_HD inline float long_words(std::int64_t a, std::int64_t b) {
  if constexpr (kOp == ElementOp::kAddHigh)
    return high_word(long_sum(a, b));
  else if constexpr (kOp == ElementOp::kSubHigh)
    return high_word(long_difference(a, b));
  else if constexpr (kOp == ElementOp::kMulHigh)
    return high_word(long_product(a, b));
  else if constexpr (kOp == ElementOp::kDivideLow)
    return low_word(quotient_of(a, b));
  else if constexpr (kOp == ElementOp::kDivideHigh)
    return high_word(quotient_of(a, b));
  else if constexpr (kOp == ElementOp::kRemainderLow)
    return low_word(remainder_of(a, b));
  else if constexpr (kOp == ElementOp::kRemainderHigh)
    return high_word(remainder_of(a, b));
  else if constexpr (kOp == ElementOp::kShiftLeftLow)
    return low_word(shifted_left(a, b, 64));
  else if constexpr (kOp == ElementOp::kShiftLeftHigh)
    return high_word(shifted_left(a, b, 64));
  else if constexpr (kOp == ElementOp::kShiftRightLow)
    return low_word(shifted_right(a, b, 64));
  else if constexpr (kOp == ElementOp::kShiftRightHigh)
    return high_word(shifted_right(a, b, 64));
  else
    return a < b ? 1.0f : 0.0f;  // kLessLong
}

template <ElementOp kOp>
ES_HD inline float words(float a, float b, float c, float d) {
  if constexpr (kOp < ElementOp::kAddHigh)
    return short_words<kOp>(bits_of(a), bits_of(b));
  else if constexpr (kOp <= ElementOp::kLessLong)
    return long_words<kOp>(long_of(a, b), long_of(c, d));
  else if constexpr (kOp == ElementOp::kFromLong)
    return static_cast<float>(long_of(a, b));
  else if constexpr (kOp == ElementOp::kToLow)
    return low_word(long_from(a));
  else if constexpr (kOp == ElementOp::kToHigh)
    return high_word(long_from(a));
  else
    return beyond_long(a) ? 1.0f : 0.0f;  // kBeyondLong
}

}  // namespace
}  // namespace es::gpu
