#pragma once
// Vectors of bf16 numbers (bf16.h).
#include "gpu/canonical/bf16.h"
#include "gpu/canonical/vec/lanes.h"

namespace es::gpu {
namespace {

inline IntVec int_bits(std::uint32_t bits) {
  return set_int(static_cast<std::int32_t>(bits));
}

// The rounded numbers in the upper halves of the lanes. The magnitudes are compared as signed
// integers, because none of them is negative.
inline IntVec bf16_words(Vec v) {
  const IntVec bits = bits_of(v), magnitude = bit_and(bits, int_bits(0x7fffffffu));
  const IntVec odd = bit_and(shift_right_16(bits), set_int(1));
  const IntVec near = add(add(bits, set_int(0x7fff)), odd);
  const IntVec below = int_bits(kBf16Saturates - 1);
  if (!any(less(below, magnitude))) return near;  // nearly always
  const IntVec largest = add(bit_and(bits, int_bits(0x80000000u)), int_bits(kBf16Largest));
  const IntVec infinity = int_bits(kInfinityBits);
  IntVec words = select(less(magnitude, int_bits(kBf16Saturates)), near, largest);
  words = select(less(magnitude, infinity), words, bits);
  return select(less(infinity, magnitude), int_bits(kQuietNanBits), words);
}

inline Vec rounded_to_bf16(Vec v) {
  return from_bits(bit_and(bf16_words(v), int_bits(0xffff0000u)));
}

inline void widen(std::int64_t n, const Bf16* x, float* y) {
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(y + i, from_bits(load_upper_halves(x + i)));
  for (; i < n; ++i) y[i] = widened(x[i]);
}

inline void narrow(std::int64_t n, const float* x, Bf16* y) {
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store_upper_halves(y + i, bf16_words(load(x + i)));
  for (; i < n; ++i) y[i] = narrowed(x[i]);
}

}  // namespace
}  // namespace es::gpu
