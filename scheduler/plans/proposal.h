#pragma once
// Role 2 of docs/SCHEDULING.md: how much faster a job would be with more devices. Pure functions of
// values; thread-safe.
#include <cstddef>
#include <limits>
#include <vector>

#include "scheduler/model/seconds.h"
#include "scheduler/plans/plan_query.h"

namespace es::scheduler {

// A request for `count` more devices of one type, relative to the devices of the job at that time:
//
//   speedup = time left now / time left with them, including the pause of the change
//
// Without a pause this is the throughput of the best plan with them divided by that of the best
// plan without them. A job that holds no device has no throughput to compare with. Then one device
// of its fastest type is the reference, and the pause is not counted, because the job has to start
// in any case. Its proposals can be compared with each other, and may have a speedup below 1.
struct Proposal {
  DeviceType type;
  std::uint32_t count = 0;  // >= 1
  double speedup = 0;       // > 0
  bool operator==(const Proposal&) const = default;
};

// The gain for each device of the proposal: (speedup - 1) / count, rounded to nine decimals. With
// perfect scaling it is the same for every count, so it does not favour small requests, as speedup
// / count would. The rounding makes such ties exact.
double gain_per_device(const Proposal& proposal);

// Higher gain per device first, then more devices, then by type name.
bool better(const Proposal& a, const Proposal& b);

// A speedup of the throughput, reduced by the cost of the change: R / (R / speedup + p), where R
// seconds are left at the present throughput and the pause is p seconds. 0 if no work is left.
// REQUIRES: speedup > 0; pause >= 0 and finite; left >= 0, may be infinite.
double speedup_after_pause(double speedup, Seconds pause, Seconds left);

struct ProposalLimits {
  std::size_t per_type = 3;                                     // most proposals of each type
  Seconds pause{0};                                             // cost of a rescale, measured
  double steps_left = std::numeric_limits<double>::infinity();  // global steps
};

// The best proposals for each type that can be added, all of them ordered by better(). `held`
// describes the job; its `available` is the devices that the job holds. A count is proposed only if
// it is faster than one device less, and, for a job that holds devices, if its speedup after the
// pause is above 1. `addable` limits the number of additional devices of each type. A job that
// holds devices and may not mix types proposes only the type that it has. A job that holds
// max_devices proposes nothing.
//
// For each type the cost is one least_seconds (plans.h) for each count that makes a step shorter.
// There are at most max_p such counts, and about 2 * sqrt(max_p) with one type.
std::vector<Proposal> propose(const PlanQuery& held, const DeviceSet& addable,
                              const ProposalLimits& limits);

}  // namespace es::scheduler
