#pragma once
// The inside of plans.h and proposal.h: how short a step can be on given devices, and the plan that
// reaches it.
//
// f of a plan is A / C_i for some used type i and some A in 1 .. max_p. At a given f a device of
// type i has a_i = min(max_p, ests_within(f, C_i)) places, more for a longer f, and the devices
// reach f when the best of them, as many as may be used, have max_p places. So the least f is found
// by bisection of A for each type: of order types^2 * log(max_p), whatever the number of devices.
// Pure, but not thread-safe: one owner.
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "scheduler/plans.h"

namespace es::scheduler {

inline constexpr double kAnySeconds = std::numeric_limits<double>::infinity();

struct SearchType {
  DeviceType type;
  double capability = 0;        // C_i
  std::uint32_t available = 0;  // 0: not used
};

// One way to choose devices. Ordered as plans are ranked: less is better.
struct Cover {
  double seconds = 0;            // f
  std::uint32_t devices = 0;     // in all
  std::uint64_t capability = 0;  // sum_i N_i * C_i in units of the fastest type's / 2^30: at equal
                                 // f, less of it is less waste, and no rounding tears a tie apart
  std::vector<std::uint32_t> counts;  // by type, in the order of search_types()
  auto operator<=>(const Cover&) const = default;
};

// The types of the query that have a capability and devices, by descending capability, then
// descending name: so fewer of the fastest type, and of equal types the first names, rank first.
std::vector<SearchType> search_types(const PlanQuery& query);

// Most devices that the query's plans may use.
std::uint32_t device_limit(const PlanQuery& query);

// Places for ESTs on one device: min(max_p, ests_within(seconds, capability)).
std::uint32_t places_within(double seconds, double capability, std::uint32_t max_p);

// Plans of types that may be used together.
class PlanSearch {
 public:
  PlanSearch(std::vector<SearchType> types, std::uint32_t max_p, std::uint32_t max_devices);

  const std::vector<SearchType>& types() const { return types_; }
  std::uint32_t max_p() const { return max_p_; }
  std::uint32_t max_devices() const { return max_devices_; }
  void set_max_devices(std::uint32_t count) { max_devices_ = count; }
  void set_available(std::size_t type, std::uint32_t count) { types_[type].available = count; }

  // Whether the devices, as many as may be used, have places for max_p ESTs at this f.
  bool reaches(double seconds) const;
  // The least f that is reached, if that is at most `seconds`.
  std::optional<double> least_seconds(double seconds = kAnySeconds) const;
  // The longest step time below `seconds` that a plan can have.
  std::optional<double> next_below(double seconds) const;
  // The first of the covers that reach this f. REQUIRES: reaches(seconds).
  Cover best_at(double seconds) const;
  // The one with these counts.
  Cover cover(double seconds, std::vector<std::uint32_t> counts) const;

 private:
  std::uint64_t weight(const SearchType& type) const;

  std::vector<SearchType> types_;
  const std::uint32_t max_p_;
  std::uint32_t max_devices_;
};

// One search for each group of types that may be used together: all, or each on its own. Covers of
// different groups can be compared.
std::vector<PlanSearch> plan_searches(const PlanQuery& query);

// The plan of a cover, A_i being the most ESTs that fit into f.
RankedPlan ranked_plan(const PlanSearch& search, const Cover& cover,
                       const Capabilities& capabilities);

}  // namespace es::scheduler
