#pragma once
// The memory of a gradient whose buckets leave early: others read the part of a bucket as soon as
// it is finished, and then its memory returns to the system.
#include <cstdint>
#include <span>

#include "gpu/graph/memory_plan.h"
#include "gpu/params/buckets.h"

namespace es::gpu {

// This many bytes of finished buckets may wait for their readers, before a local step waits, too.
// With several buckets on the way it does not wait for every message.
inline constexpr std::int64_t kLeavingBytes = 4 * kBucketBytes;

// Returns the most floats of the gradient array that have memory at one time of a local step, if
// each bucket is given back when it was read, and at most `waiting_floats` of finished buckets have
// not been read. Bucket 0 is given back at the end of the step. Memory is taken when it is first
// written: by the gradients of parameters, and by other tensors of the step, which lie where
// gradients are not yet written. Pure function. REQUIRES: `plan` is plan_memory(program,
// GradientsInForward::kYes).
std::int64_t leaving_floats(const Program& program, const MemoryPlan& plan,
                            std::span<const Bucket> buckets, std::int64_t waiting_floats);

}  // namespace es::gpu
