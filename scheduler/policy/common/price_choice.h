#pragma once
// The devices among which a policy chooses for a job with a deadline or a budget, so that the job
// costs little. Pure.
//
// A set of n devices of type t lets the job end at
//
//   end(t, n)  = now + pause + remaining / speed(n devices of t)
//   cost(t, n) = n * price(t) * (end(t, n) - now)
//
// It is in time if it ends by the deadline also if the steps take kLateness longer, and affordable
// if its cost is at most what the job may still spend. Only sets are compared whose last device
// makes the job faster. The job is limited to
//
//   1. of the sets that are in time and affordable, those that cost at most kNearlyCheapest more
//      than the cheapest;
//   2. if there are none, the affordable ones. If all are, the job is not limited: its deadline
//      cannot be met, or it has none;
//   3. if there are none, those that cost at most kNearlyCheapest more than the cheapest of all.
//
// Of these sets one that ends first says how many devices it may have, and the types of which this
// number is among these sets are those that it may use. A job whose length is not known is not
// limited. What a job holds already is not taken from it by this choice.
#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/policy/common/policy.h"

namespace es::scheduler {

inline constexpr double kLateness = 0.05;
inline constexpr double kNearlyCheapest = 0.02;

struct PriceChoice {
  std::vector<DeviceType> types;  // ascending, not empty; a part of JobView::types
  std::uint32_t max_devices = 1;  // from min_devices to JobView::max_devices
  // When the choice may be another one although nothing has happened; > now.
  Seconds again_at = kNever;
  bool operator==(const PriceChoice&) const = default;
};

// `total`: the devices that jobs may have. nullopt: the job is not limited.
std::optional<PriceChoice> price_choice(const JobView& job, const DeviceSet& total,
                                        const Prices& prices, Seconds now);

// Limits the job in the view to its choice: its types, its largest number of devices, its proposals
// and its price_limit. A job that may spend nothing any more is pinned to nothing. A job that is
// pinned has what its user chose at any price. Returns the time of PriceChoice::again_at.
// REQUIRES: the bounds and the proposals of the job are those before any choice.
Seconds limit_by_price(JobView& job, const DeviceSet& total, const Prices& prices, Seconds now);

}  // namespace es::scheduler
