#pragma once
// The plans of a job that are worth having, and the best one for given devices (role 1).
//
// A plan is dominated when another one needs no more devices of any type and is at least as fast.
// So in a plan that is not dominated every device counts: without it the job would be slower.
// Without mix_types, plans of different types do not dominate each other.
//
// Rank, best first: higher throughput (shorter f); then fewer devices; then less waste, which at
// equal f is less capability used (the faster devices are left to others); then fewer of the
// fastest type, and so on. The first plan is not dominated.
//
// How many there are: a plan that is not dominated is a minimal cover of max_p by places (at its f,
// but not at the next shorter one), and for T types there are of order max_p^(T-1) of them. Nobody
// needs them all, so they are listed only while they are few. Of many, the list has the frontier:
// for each number of devices in all, the best plan on at most that many. At most max_p plans, none
// of them dominated, among them the best.
//
// Cost, for T types whatever the number of devices:
//   least_seconds   T^2 * log(max_p): a few microseconds
//   best_plan       that, and fewest_devices.h for one f
//   list_plans      max_p times that at most
// Pure functions of values; thread-safe.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/model.h"

namespace es::scheduler {

struct PlanQuery {
  std::uint32_t max_p = 1;        // ESTs of the job, >= 1
  Capabilities capabilities;      // a type without capability is not planned with
  DeviceSet available;            // at most so many devices of each type
  std::uint32_t max_devices = 0;  // at most so many in all; 0 = no other bound than max_p
  bool mix_types = false;         // level D2: a plan may use more than one type
};

struct RankedPlan {
  Plan plan;  // A_i is a_i, the most ESTs that fit into f
  Estimate estimate;
  bool operator==(const RankedPlan&) const = default;
};

// Role 1: the first of all plans. What it does not use of `available` is better released. None when
// no device is available.
std::optional<RankedPlan> best_plan(const PlanQuery& query);

// Its f, found without it.
std::optional<double> least_seconds(const PlanQuery& query);

struct PlanList {
  std::vector<RankedPlan> plans;  // best first; empty when no device is available
  bool complete = true;           // false: plans that are not dominated were left out
};

struct ListLimits {
  std::size_t plans = 500;
  std::uint64_t steps = 200'000;  // of the search for all of them: a few milliseconds
};

// The plans that are not dominated: all, or within the limits those of the frontier.
PlanList list_plans(const PlanQuery& query, const ListLimits& limits = {});

}  // namespace es::scheduler
