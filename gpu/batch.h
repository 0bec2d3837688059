#pragma once
// Batch: samples as a model's graph takes them.
#include <cstdint>

namespace es::gpu {

// The caller keeps the memory for the duration of the call that it is passed to.
struct Batch {
  const float* images = nullptr;         // [batch][height][width][channels]
  const std::int32_t* labels = nullptr;  // [batch], in [0, classes)
};

}  // namespace es::gpu
