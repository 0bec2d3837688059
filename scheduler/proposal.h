#pragma once
// Role 2: what more devices would bring to a job. Pure functions of values; thread-safe.
#include <cstddef>
#include <vector>

#include "scheduler/plans.h"

namespace es::scheduler {

// A request for `count` more devices of one type, relative to what the job holds when it is made:
//
//   speedup = throughput of the best plan with them / throughput of the best plan without
//
// A job that holds nothing has no throughput to compare with; one device of its fastest type takes
// that place, so its proposals are comparable among each other and may have a speedup below 1.
struct Proposal {
  DeviceType type;
  std::uint32_t count = 0;  // >= 1
  double speedup = 0;       // > 0
  bool operator==(const Proposal&) const = default;
};

// What each device of the proposal adds: (speedup - 1) / count, to nine decimals. With perfect
// scaling it is the same for every count, so it does not favour small requests as speedup / count
// would; the rounding makes such ties exact.
double gain_per_device(const Proposal& proposal);

// Higher gain per device first, ties to more devices, then by type name.
bool better(const Proposal& a, const Proposal& b);

// For each type that can be added the at most `per_type_max` best proposals, all of them ordered by
// better(). `held` describes the job, its `available` being the devices that it holds. Proposed are
// only counts that are faster than one device less. `addable`: at most so many more of each type.
// A job with devices and without mix_types proposes only the type that it has; one that holds
// max_devices proposes nothing.
std::vector<Proposal> propose(const PlanQuery& held, const DeviceSet& addable,
                              std::size_t per_type_max);

}  // namespace es::scheduler
