#pragma once
// Refusal: devices with which a job was measured to be slower than without (grant_trial.h). Values;
// thread-safe.
#include <vector>

#include "scheduler/model.h"

namespace es::scheduler {

// The job refuses `held` with more devices of these types, however many, and of no other types.
struct Refusal {
  DeviceSet held;                 // what it fell back to, not empty
  std::vector<DeviceType> types;  // that were added to it: ascending, not empty
  Capabilities capabilities;      // known before they were added
  bool operator==(const Refusal&) const = default;
};

// The first refusal that these devices fall under; none: nullptr.
const Refusal* refusal_of(const std::vector<Refusal>& refusals, const DeviceSet& devices);

}  // namespace es::scheduler
