#pragma once
// bf16: the upper half of an IEEE-754 binary32 number, so eight bits of mantissa and the exponents
// of fp32. A kernel reads such a number as the fp32 number that it is. Writing rounds to the
// nearest bf16 number, ties to even, in integer arithmetic:
//   subnormal numbers are rounded like all others, and zeros keep their sign
//   a finite number never becomes infinite: from kBf16Saturates on it becomes the largest number
//   an infinity stays; a NaN becomes the quiet NaN 0x7fc0
#include <bit>
#include <cstdint>

#include "gpu/canonical/on_device.h"

namespace es::gpu {

using Bf16 = std::uint16_t;  // the bits

// Bits of the magnitude of fp32 numbers.
constexpr std::uint32_t kBf16Largest = 0x7f7f0000u;    // the largest bf16 number
constexpr std::uint32_t kBf16Saturates = 0x7f7f8000u;  // half a step above it
constexpr std::uint32_t kInfinityBits = 0x7f800000u;
constexpr std::uint32_t kQuietNanBits = 0x7fc00000u;

// Everything below is in an unnamed namespace for the reason given in scalar_math.h.
namespace {

ES_HD inline float widened(Bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

ES_HD inline Bf16 narrowed(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffu, sign = bits & 0x80000000u;
  std::uint32_t result = bits + 0x7fffu + (bits >> 16 & 1u);
  if (magnitude >= kBf16Saturates) result = sign | kBf16Largest;
  if (magnitude >= kInfinityBits) result = magnitude > kInfinityBits ? kQuietNanBits : bits;
  return static_cast<Bf16>(result >> 16);
}

ES_HD inline float rounded_to_bf16(float x) {
  return widened(narrowed(x));
}

}  // namespace
}  // namespace es::gpu
