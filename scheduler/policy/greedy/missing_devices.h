#pragma once
// The devices that a job in need gets under `easyscale` (greedy.h).
#include <optional>

#include "scheduler/policy/common/policy.h"

namespace es::scheduler {

// What `job` gets to complete its pinned demand, or its minimum, out of `free` and `rest`: free
// devices first, of the types whose proposals gain most. nullopt if they do not suffice.
// `mix_types` says whether it may have several types.
std::optional<DeviceSet> missing_devices(const JobView& job, bool mix_types, const DeviceSet& free,
                                         const DeviceSet& rest);

}  // namespace es::scheduler
