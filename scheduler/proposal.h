#pragma once
// Role 2: what more devices would bring to a job. Pure functions of values; thread-safe.
#include <cstddef>
#include <limits>
#include <vector>

#include "scheduler/plans.h"

namespace es::scheduler {

// A request for `count` more devices of one type, relative to what the job holds when it is made:
//
//   speedup = time left now / time left with them, the pause of the change included
//
// which without a pause is throughput of the best plan with them / throughput of the best plan
// without. A job that holds nothing has no throughput to compare with; one device of its fastest
// type takes that place, and no pause is charged (it has to start in any case), so its proposals
// are comparable among each other and may have a speedup below 1.
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

// A speedup of the throughput, less what the change costs: with R seconds left at the throughput of
// now and a pause of p seconds, R / (R / speedup + p). 0 when nothing is left to do.
// REQUIRES: speedup > 0; pause_seconds >= 0, finite; seconds_left >= 0, may be infinite.
double speedup_after_pause(double speedup, double pause_seconds, double seconds_left);

struct ProposalLimits {
  std::size_t per_type = 3;                                     // of each type at most so many
  double pause_seconds = 0;                                     // what a rescale costs, measured
  double steps_left = std::numeric_limits<double>::infinity();  // global steps
};

// For each type that can be added the best proposals, all of them ordered by better(). `held`
// describes the job, its `available` being the devices that it holds. Proposed are only counts that
// are faster than one device less and, for a job that holds devices, have a speedup above 1 after
// the pause. `addable`: at most so many more of each type. A job with devices and without mix_types
// proposes only the type that it has; one that holds max_devices proposes nothing.
//
// Cost: for each type one least_seconds (plans.h) for each count that makes a step shorter, of
// which there are at most max_p, and about 2 * sqrt(max_p) for one type.
std::vector<Proposal> propose(const PlanQuery& held, const DeviceSet& addable,
                              const ProposalLimits& limits);

}  // namespace es::scheduler
