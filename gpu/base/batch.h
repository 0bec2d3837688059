#pragma once
// Batch: the samples of one mini-batch in the form in which a model's graph takes them.
#include <cstdint>

#include "proto/base/sample_layout.h"

namespace es::gpu {

// One block of SampleLayout::words() * batch_size 32-bit words. The fields follow each other
// (proto/base/sample_layout.h). An integer field contains the bits of an int32. The caller keeps
// the memory for the duration of the call that receives the batch. An alignment of 4 bytes is
// enough.
struct Batch {
  const float* words = nullptr;
  // 0, or a number that the caller has given to this content and to no other. It identifies a batch
  // whose words were copied or checked ahead of its local step.
  std::uint64_t serial = 0;
  // The program of the model that computes it (Graph::programs), of whose samples these are. 0: the
  // model itself.
  std::uint32_t program = 0;
};

}  // namespace es::gpu
