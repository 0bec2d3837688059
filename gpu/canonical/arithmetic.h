#pragma once
// The arithmetic of matrix products (docs/ARITHMETIC.md).
#include <cstdint>

namespace es::gpu {

enum class Arithmetic : std::uint8_t {
  kFp32,  // DOT: chains of fused multiply-adds
  kX15,   // exact sums of products of integers of 15 bits and a sign (exact_math.h)
  kX22,   // the same with 22 bits
};

}  // namespace es::gpu
