#pragma once
// The search behind plans.h and proposal.h: the shortest step on given devices, and the plan that
// reaches it.
//
// Communication (sync.h) depends on the number of devices only. So the search itself is for the
// shortest computation f, and best_cover() adds what the number of devices costs: it looks at the
// best plan with at most m devices for each m where a smaller m makes f longer.
//
// The f of a plan is A / C_i for some used type i and some A in 1 .. max_p. At a given f a device
// of type i has a_i = min(max_p, ests_within(f, C_i)) places, and a longer f gives at least as
// many. The devices reach f if the best of them, as many as may be used, have max_p places. So the
// least f is found by bisection of A for each type; the cost is of order types^2 * log(max_p) and
// does not depend on the number of devices. Pure, but not thread-safe: it has one owner.
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "scheduler/plans/plan_query.h"

namespace es::scheduler {

inline constexpr double kAnySeconds = std::numeric_limits<double>::infinity();

struct SearchType {
  DeviceType type;
  double capability = 0;        // C_i
  std::uint32_t available = 0;  // 0 if the type is not used
};

// One choice of devices. Covers are ordered as plans are ranked: less is better.
struct Cover {
  double seconds = 0;         // f
  std::uint32_t devices = 0;  // total number of devices
  // sum_i N_i * C_i, where the fastest type counts as 2^30. At equal f a smaller sum means less
  // waste. It is an integer, so that rounding cannot separate equal covers.
  std::uint64_t capability = 0;
  std::vector<std::uint32_t> counts;  // by type, in the order of search_types()
  auto operator<=>(const Cover&) const = default;
};

// The types of the query that have a capability and devices, by descending capability, then by
// descending name. In this order fewer devices of the fastest type, and of equal types the first
// names, rank first.
std::vector<SearchType> search_types(const PlanQuery& query);

// The largest number of devices that plans of the query may use.
std::uint32_t device_limit(const PlanQuery& query);

// Places for ESTs on one device: min(max_p, ests_within(seconds, capability)).
std::uint32_t places_within(double seconds, double capability, std::uint32_t max_p);

// The plans of types that may be used together.
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
  // The least f that is reached; nullopt if it exceeds `seconds`.
  std::optional<double> least_seconds(double seconds = kAnySeconds) const;
  // The longest step time below `seconds` that a plan can have.
  std::optional<double> next_below(double seconds) const;
  // The first of the covers that reach this f. REQUIRES: reaches(seconds).
  Cover best_at(double seconds) const;
  // The cover with these counts.
  Cover cover(double seconds, std::vector<std::uint32_t> counts) const;

 private:
  std::uint64_t weight(const SearchType& type) const;

  std::vector<SearchType> types_;
  const std::uint32_t max_p_;
  std::uint32_t max_devices_;
};

// Returns one search for each group of types that may be used together: for all types, or for each
// type alone. Covers of different groups can be compared.
std::vector<PlanSearch> plan_searches(const PlanQuery& query);

// A cover, and the duration of its steps with communication.
struct TimedCover {
  Cover cover;
  double seconds = 0;
  // As plans are ranked.
  bool operator<(const TimedCover& o) const;
};

// The first plan of the search as plans are ranked; nullopt if its steps would take longer than
// `seconds`.
std::optional<TimedCover> best_cover(const PlanSearch& search, const SyncCurve& sync,
                                     double seconds = kAnySeconds);

// The plan of a cover. A_i is the largest number of ESTs that fits into f.
RankedPlan ranked_plan(const PlanSearch& search, const Cover& cover,
                       const Capabilities& capabilities, const SyncCurve& sync);

}  // namespace es::scheduler
