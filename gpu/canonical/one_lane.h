#pragma once
// The operations of vec/lanes.h on a single float, for formulas that are written once for one
// element and for vectors (functions_math.h, element_math.h). The namespace is unnamed for the
// reason given in scalar_math.h.
#include "gpu/canonical/scalar_math.h"

namespace es::gpu {
namespace {

// Returns the constant in the type of the first argument.
ES_HD inline float like(float, float value) {
  return value;
}
ES_HD inline std::int32_t ints_like(float, std::int32_t value) {
  return value;
}

ES_HD inline float add(float a, float b) {
  return a + b;
}
ES_HD inline float sub(float a, float b) {
  return a - b;
}
ES_HD inline float mul(float a, float b) {
  return a * b;
}
ES_HD inline float div(float a, float b) {
  return a / b;
}
ES_HD inline float negate(float a) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(a) ^ 0x80000000u);
}
// best < v ? v : best, and v < best ? v : best.
ES_HD inline float larger_of(float best, float v) {
  return best < v ? v : best;
}
ES_HD inline float smaller_of(float best, float v) {
  return v < best ? v : best;
}

ES_HD inline bool less(float a, float b) {
  return a < b;
}
ES_HD inline bool less_equal(float a, float b) {
  return a <= b;
}
ES_HD inline bool equal(float a, float b) {
  return a == b;
}
ES_HD inline bool unordered(float a, float b) {
  return is_nan(a) || is_nan(b);
}
ES_HD inline bool either(bool a, bool b) {
  return a || b;
}
ES_HD inline bool both(bool a, bool b) {
  return a && b;
}
ES_HD inline float select(bool test, float a, float b) {
  return test ? a : b;
}
ES_HD inline float keep_if(bool test, float v) {
  return test ? v : 0.0f;
}

// Integers of 32 bits wrap around.
ES_HD inline std::uint32_t word(std::int32_t v) {
  return static_cast<std::uint32_t>(v);
}
ES_HD inline std::int32_t bits_of(float v) {
  return std::bit_cast<std::int32_t>(v);
}
ES_HD inline float from_bits(std::int32_t v) {
  return std::bit_cast<float>(v);
}
ES_HD inline std::int32_t add(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(word(a) + word(b));
}
ES_HD inline std::int32_t sub(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(word(a) - word(b));
}
ES_HD inline std::int32_t mul(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(word(a) * word(b));
}
ES_HD inline bool less(std::int32_t a, std::int32_t b) {
  return a < b;
}
ES_HD inline bool equal(std::int32_t a, std::int32_t b) {
  return a == b;
}
ES_HD inline std::int32_t bit_and(std::int32_t a, std::int32_t b) {
  return a & b;
}
ES_HD inline std::int32_t shift_right_23(std::int32_t v) {
  return v >> 23;
}
ES_HD inline std::int32_t shift_left_23(std::int32_t v) {
  return static_cast<std::int32_t>(word(v) << 23);
}
ES_HD inline std::int32_t shift_left_30(std::int32_t v) {
  return static_cast<std::int32_t>(word(v) << 30);
}
ES_HD inline bool is_odd(std::int32_t v) {
  return (v & 1) != 0;
}
// Returns v with its sign changed if `sign` is negative.
ES_HD inline float flip_sign(float v, std::int32_t sign) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) ^ (word(sign) & 0x80000000u));
}

// An integer as a float, rounded to nearest.
ES_HD inline float to_floats(std::int32_t v) {
  return static_cast<float>(v);
}
// The integer part of a float; NaN gives 0, and the other floats without an integer saturate.
ES_HD inline std::int32_t truncated(float v) {
  if (is_nan(v)) return 0;
  if (v >= 0x1p31f) return INT32_MAX;
  return v < -0x1p31f ? INT32_MIN : static_cast<std::int32_t>(v);
}
// The nearest integer, ties to even. Floats from 2^23 on are integers. -0 and the sign of what is
// rounded to zero stay.
ES_HD inline float rounded(float v) {
  const float size = absolute(v);
  if (!(size < kTwoTo23)) return v;
  return with_sign((size + kTwoTo23) - kTwoTo23, v);
}
// The largest integer that is not above v; -0 stays.
ES_HD inline float floor_of(float v) {
  if (!(absolute(v) < kTwoTo23)) return v;
  const float n = rounded(v);
  return v < n ? n - 1.0f : n;
}

// Returns x * 2^n, for a float n that is an integer in [-150, 128], or NaN.
ES_HD inline float times_power_of_two(float x, float n) {
  return times_power_of_two(
      x, static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(n + kExpMagic) - kExpMagicBits));
}

}  // namespace
}  // namespace es::gpu
