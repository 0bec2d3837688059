#pragma once
// The plans of a job that are not dominated, and the best plan for given devices (role 1 of
// docs/SCHEDULING.md). plan_query.h defines which plans are dominated, and how plans are ranked.
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

#include "scheduler/plans/plan_query.h"

namespace es::scheduler {

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
