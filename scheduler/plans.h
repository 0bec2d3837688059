#pragma once
// The plans of a job that are worth having, and the best one for given devices (role 1).
//
// A plan is dominated when another one needs no more devices of any type and is at least as fast.
// So in a plan that is not dominated every device counts: without it the job would be slower.
//
// How they are found. f of a plan is A / C_i for some A and i, so there are at most
// types * max_p values to look at. At a given f a device of type i takes a_i = ests_within(f, C_i)
// ESTs, and the plans wanted are the minimal covers: sum_i N_i * a_i >= max_p, but not without any
// one of the devices, and not at the next smaller f. No two plans are ever compared.
//
// Cost: for T types, sum over f of prod over T - 1 types of (max_p / a_i + 1), which is of order
// T * max_p^(T-1) / (T - 1)! at most: about 20 thousand steps for 3 types and max_p 64. The number
// of plans itself grows like that, so a search for more types must return only the best ones; it
// replaces the inside of these two functions. Pure functions of values; thread-safe.
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
  Plan plan;
  Estimate estimate;
  bool operator==(const RankedPlan&) const = default;
};

// All plans that are not dominated, best first: by higher throughput, then fewer devices, then less
// waste (the faster devices are left to others), then by the first (type, devices) that differs.
// A_i is a_i, the most ESTs that fit into f. Without mix_types, plans of different types do not
// dominate each other. Empty when no device is available.
std::vector<RankedPlan> enumerate_plans(const PlanQuery& query);

// Role 1: the first of enumerate_plans, found without the others. What it does not use of
// `available` is better released. None when no device is available.
std::optional<RankedPlan> best_plan(const PlanQuery& query);

}  // namespace es::scheduler
