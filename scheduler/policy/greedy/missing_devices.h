#pragma once
// The devices that a job in need gets under `easyscale` (greedy.h).
#include <optional>

#include "scheduler/policy/common/policy.h"

namespace es::scheduler {

// Returns the devices out of `free` and `rest` that complete the pinned demand of `job`, or its
// minimum: free devices first, of the types whose proposals gain most. nullopt if they do not
// suffice. `mix_types` says whether the job may have several types.
std::optional<DeviceSet> missing_devices(const JobView& job, bool mix_types, const DeviceSet& free,
                                         const DeviceSet& rest);

}  // namespace es::scheduler
