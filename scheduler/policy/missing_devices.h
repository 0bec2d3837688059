#pragma once
// Which devices a job in need gets by the rule of `easyscale` (greedy.h).
#include <optional>

#include "scheduler/policy/policy.h"

namespace es::scheduler {

// What `job` gets to have its pinned demand, or its minimum, when `free` and `rest` can be had:
// free devices first, of the types whose proposals gain most. None when they do not suffice.
// `mix_types`: it may have several types.
std::optional<DeviceSet> missing_devices(const JobView& job, bool mix_types, const DeviceSet& free,
                                         const DeviceSet& rest);

}  // namespace es::scheduler
