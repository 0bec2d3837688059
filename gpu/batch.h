#pragma once
// Batch: the samples of one mini-batch as a model's graph takes them.
#include <cstdint>

#include "proto/base/sample_layout.h"

namespace es::gpu {

// One block of SampleLayout::words() * batch_size 32-bit words, field after field
// (proto/base/sample_layout.h). Integer fields hold the bits of an int32. The caller keeps the
// memory for the duration of the call that it is passed to; 4-byte alignment is enough.
struct Batch {
  const float* words = nullptr;
  // 0, or a number that the caller has given to this content and to no other: what was copied or
  // checked ahead is known again by it.
  std::uint64_t serial = 0;
};

}  // namespace es::gpu
