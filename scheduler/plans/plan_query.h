#pragma once
// What is asked about the plans of a job, and how a plan is answered.
//
// A plan is dominated if another plan needs no more devices of any type and computes at least as
// fast. So in a plan that is not dominated every device matters: without it the job would compute
// more slowly. Communication does not count here: it is learned, and a plan that it makes slower
// than one with fewer devices is listed behind that one. Without mix_types, plans of different
// types do not dominate each other.
//
// Plans are ranked by higher throughput (shorter f); then by fewer devices; then by less waste,
// which at equal f means less capability (faster devices are left to other jobs); then by fewer
// devices of the fastest type, and so on. The first plan is not dominated.
//
// plan_search.h finds plans, plans.h lists them, and proposal.h compares plans with more devices.
// Values; thread-safe.
#include <cstdint>

#include "scheduler/model/model.h"

namespace es::scheduler {

struct PlanQuery {
  std::uint32_t max_p = 1;        // ESTs of the job, >= 1
  Capabilities capabilities;      // types without a capability are not used
  DeviceSet available;            // most devices of each type
  std::uint32_t max_devices = 0;  // most devices in all; 0 for max_p
  bool mix_types = false;         // level D2: a plan may use more than one type
  SyncCurve sync = {};            // what the job is known to lose by communication
};

struct RankedPlan {
  Plan plan;  // A_i is a_i, the most ESTs that fit into f
  Estimate estimate;
  bool operator==(const RankedPlan&) const = default;
};

}  // namespace es::scheduler
