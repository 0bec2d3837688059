#pragma once
// The plans of a job that are not dominated, and the best plan for given devices (role 1 of
// docs/SCHEDULING.md).
//
// A plan is dominated if another plan needs no more devices of any type and is at least as fast. So
// in a plan that is not dominated every device matters: without it the job would be slower. Without
// mix_types, plans of different types do not dominate each other.
//
// Plans are ranked by higher throughput (shorter f); then by fewer devices; then by less waste,
// which at equal f means less capability (faster devices are left to other jobs); then by fewer
// devices of the fastest type, and so on. The first plan is not dominated.
//
// A plan that is not dominated is a minimal cover of max_p by places, at its f but not at the next
// shorter one. For T types there are of order max_p^(T-1) such plans. All of them are never needed,
// so they are listed only while they are few. Of many, the list contains the frontier: for each
// total number of devices the best plan with at most that number. These are at most max_p plans,
// none of them dominated, and the best plan is among them.
//
// The cost for T types does not depend on the number of devices:
//   least_seconds   T^2 * log(max_p): a few microseconds
//   best_plan       the same, and fewest_devices.h for one f
//   list_plans      at most max_p times that
// Pure functions of values; thread-safe.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/model/model.h"

namespace es::scheduler {

struct PlanQuery {
  std::uint32_t max_p = 1;        // ESTs of the job, >= 1
  Capabilities capabilities;      // types without a capability are not used
  DeviceSet available;            // most devices of each type
  std::uint32_t max_devices = 0;  // most devices in all; 0 for max_p
  bool mix_types = false;         // level D2: a plan may use more than one type
};

struct RankedPlan {
  Plan plan;  // A_i is a_i, the most ESTs that fit into f
  Estimate estimate;
  bool operator==(const RankedPlan&) const = default;
};

// Role 1: the first of all plans. The devices in `available` that it does not use should be
// released. nullopt if no device is available.
std::optional<RankedPlan> best_plan(const PlanQuery& query);

// The f of the best plan, found without the plan.
std::optional<double> least_seconds(const PlanQuery& query);

struct PlanList {
  std::vector<RankedPlan> plans;  // best first; empty if no device is available
  bool complete = true;           // false if plans that are not dominated were omitted
};

struct ListLimits {
  std::size_t plans = 500;
  std::uint64_t steps = 200'000;  // search steps for the complete list: a few milliseconds
};

// The plans that are not dominated; if the limits do not allow all of them, those of the frontier.
PlanList list_plans(const PlanQuery& query, const ListLimits& limits = {});

}  // namespace es::scheduler
