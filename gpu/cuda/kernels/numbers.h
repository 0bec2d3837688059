#pragma once
// Arrays of fp32 or bf16 numbers. All threads of a kernel take the same branch for an array.
#include <cstdint>

#include "gpu/canonical/bf16.h"

namespace es::gpu::cuda {
namespace {

ES_HD inline float number_at(const float* p, bool bf16, std::int64_t i) {
  return bf16 ? widened(reinterpret_cast<const Bf16*>(p)[i]) : p[i];
}

ES_HD inline void set_number(float* p, bool bf16, std::int64_t i, float value) {
  if (bf16) {
    reinterpret_cast<Bf16*>(p)[i] = narrowed(value);
  } else {
    p[i] = value;
  }
}

struct Numbers {
  const float* p;
  bool bf16;
  ES_HD float operator[](std::int64_t i) const { return number_at(p, bf16, i); }
};

}  // namespace
}  // namespace es::gpu::cuda
