#pragma once
// How the operands of a product are stored, and how a product reads their numbers
// (gpu/graph/precision.h).
#include <cstdint>

#include "gpu/canonical/bf16.h"

namespace es::gpu {

enum class Factor : std::uint8_t {
  kF32,
  kRounded,  // fp32 numbers, each of which is rounded to bf16 where it is read
  kBf16,
};

namespace {

// Returns the address of number `index` of an operand; its type is that of the kernels' arguments.
inline const float* number_at(Factor stored, const float* x, std::int64_t index) {
  if (stored != Factor::kBf16) return x + index;
  return reinterpret_cast<const float*>(reinterpret_cast<const Bf16*>(x) + index);
}

// Returns number `index` of an operand as the product reads it.
inline float read_number(Factor stored, const float* x, std::int64_t index) {
  switch (stored) {
    case Factor::kF32:
      return x[index];
    case Factor::kRounded:
      return rounded_to_bf16(x[index]);
    case Factor::kBf16:
      return widened(reinterpret_cast<const Bf16*>(x)[index]);
  }
  return 0.0F;
}

}  // namespace
}  // namespace es::gpu
