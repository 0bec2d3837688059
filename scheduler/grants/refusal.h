#pragma once
// Refusal: devices with which a job was measured to be slower than without them (grant_trial.h).
// Values; thread-safe.
#include <vector>

#include "scheduler/model/model.h"

namespace es::scheduler {

// The job refuses `held` together with any number of additional devices of these types and of no
// other type.
struct Refusal {
  DeviceSet held;                 // the devices to which it fell back, not empty
  std::vector<DeviceType> types;  // types that were added to it: ascending, not empty
  Capabilities capabilities;      // known before they were added
  bool operator==(const Refusal&) const = default;
};

// The first refusal that applies to these devices; nullptr if there is none.
const Refusal* refusal_of(const std::vector<Refusal>& refusals, const DeviceSet& devices);

}  // namespace es::scheduler
