#include "scheduler/plans.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include "proto/base/check.h"

namespace es::scheduler {
namespace {

struct TypeLimit {
  DeviceType type;
  double capability = 0;
  std::uint32_t available = 0;
};
using TypeLimits = std::vector<TypeLimit>;

std::uint32_t device_limit(const PlanQuery& query) {
  return query.max_devices == 0 ? query.max_p : std::min(query.max_p, query.max_devices);
}

// The types that may appear together in one plan: all of them, or each on its own.
std::vector<TypeLimits> type_groups(const PlanQuery& query) {
  std::vector<TypeLimits> groups;
  for (const DeviceCount& c : query.available.counts) {
    const auto capability = query.capabilities.find(c.type);
    if (capability == query.capabilities.end()) continue;
    if (groups.empty() || !query.mix_types) groups.emplace_back();
    groups.back().push_back({c.type, capability->second, c.count});
  }
  return groups;
}

// All values that f can have, ascending.
std::vector<double> step_times(const TypeLimits& types, std::uint32_t max_p) {
  std::vector<double> seconds;
  for (const TypeLimit& t : types)
    for (std::uint32_t ests = 1; ests <= max_p; ++ests) seconds.push_back(ests / t.capability);
  std::sort(seconds.begin(), seconds.end());
  seconds.erase(std::unique(seconds.begin(), seconds.end()), seconds.end());
  return seconds;
}

// a_i: how many ESTs a device of each type runs within f; more than max_p are never needed.
std::vector<std::uint32_t> places_at(double f, const TypeLimits& types, std::uint32_t max_p) {
  std::vector<std::uint32_t> places;
  for (const TypeLimit& t : types) places.push_back(std::min(max_p, ests_within(f, t.capability)));
  return places;
}

// Visits the minimal covers of max_p at one f: device counts by type, such that the devices have
// places for max_p ESTs and no device can be left out.
class CoverSearch {
 public:
  using Visit = std::function<void(const std::vector<std::uint32_t>& counts)>;

  CoverSearch(const TypeLimits& types, double f, std::uint32_t max_p, std::uint32_t max_devices)
      : types_(types),
        max_p_(max_p),
        max_devices_(max_devices),
        places_(places_at(f, types, max_p)),
        reachable_(types.size() + 1, 0),
        counts_(types.size(), 0) {
    for (std::size_t i = types.size(); i-- > 0;)
      reachable_[i] = reachable_[i + 1] + std::uint64_t{places_[i]} * types[i].available;
  }

  void visit_all(const Visit& visit) { extend(0, 0, 0, visit); }
  const std::vector<std::uint32_t>& places() const { return places_; }

 private:
  void extend(std::size_t i, std::uint64_t covered, std::uint32_t devices, const Visit& visit) {
    if (covered >= max_p_) {
      if (is_minimal(covered)) visit(counts_);
      return;
    }
    if (covered + reachable_[i] < max_p_) return;
    // Enough of this type to cover the rest is the most that a minimal cover can have.
    const std::uint32_t enough =
        places_[i] == 0 ? 0 : static_cast<std::uint32_t>((max_p_ - covered - 1) / places_[i] + 1);
    const std::uint32_t most = std::min({enough, types_[i].available, max_devices_ - devices});
    for (std::uint32_t n = 0; n <= most; ++n) {
      counts_[i] = n;
      extend(i + 1, covered + std::uint64_t{n} * places_[i], devices + n, visit);
    }
    counts_[i] = 0;
  }

  bool is_minimal(std::uint64_t covered) const {
    for (std::size_t i = 0; i < counts_.size(); ++i)
      if (counts_[i] > 0 && covered - places_[i] >= max_p_) return false;
    return true;
  }

  const TypeLimits& types_;
  const std::uint32_t max_p_;
  const std::uint32_t max_devices_;
  const std::vector<std::uint32_t> places_;  // a_i
  std::vector<std::uint64_t> reachable_;     // places of all available devices of types i and later
  std::vector<std::uint32_t> counts_;
};

RankedPlan make_plan(const TypeLimits& types, const std::vector<std::uint32_t>& counts,
                     const std::vector<std::uint32_t>& places, const PlanQuery& query) {
  RankedPlan ranked;
  for (std::size_t i = 0; i < types.size(); ++i)
    if (counts[i] > 0) ranked.plan.parts.push_back({types[i].type, counts[i], places[i]});
  ranked.estimate = estimate(ranked.plan, query.capabilities, query.max_p);
  return ranked;
}

bool ranks_before(const RankedPlan& a, const RankedPlan& b) {
  const auto key = [](const RankedPlan& r) {
    return std::tuple(r.estimate.f_seconds_per_step, r.plan.devices().total(), r.estimate.waste);
  };
  if (key(a) != key(b)) return key(a) < key(b);
  return std::lexicographical_compare(
      a.plan.parts.begin(), a.plan.parts.end(), b.plan.parts.begin(), b.plan.parts.end(),
      [](const PlanPart& x, const PlanPart& y) {
        return std::tie(x.type, x.devices) < std::tie(y.type, y.devices);
      });
}

// Adds the plans whose f is exactly `f`. `places_before`: a_i at the next smaller f.
void add_plans_at(double f, const TypeLimits& types, const PlanQuery& query,
                  const std::vector<std::uint32_t>& places_before, std::vector<RankedPlan>& plans) {
  CoverSearch search(types, f, query.max_p, device_limit(query));
  search.visit_all([&](const std::vector<std::uint32_t>& counts) {
    std::uint64_t covered_before = 0;
    for (std::size_t i = 0; i < counts.size(); ++i)
      covered_before += std::uint64_t{counts[i]} * places_before[i];
    if (covered_before < query.max_p)
      plans.push_back(make_plan(types, counts, search.places(), query));
  });
}

void add_all_plans(const TypeLimits& types, const PlanQuery& query,
                   std::vector<RankedPlan>& plans) {
  std::vector<std::uint32_t> places_before(types.size(), 0);
  for (const double f : step_times(types, query.max_p)) {
    add_plans_at(f, types, query, places_before, plans);
    places_before = places_at(f, types, query.max_p);
  }
}

// Whether the devices, as many as may be used, have places for max_p ESTs at this f.
bool can_cover(double f, const TypeLimits& types, const PlanQuery& query) {
  const std::vector<std::uint32_t> places = places_at(f, types, query.max_p);
  std::vector<std::size_t> order(types.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return places[a] > places[b]; });
  std::uint64_t covered = 0;
  std::uint32_t devices = device_limit(query);
  for (const std::size_t i : order) {
    const std::uint32_t used = std::min(devices, types[i].available);
    covered += std::uint64_t{used} * places[i];
    devices -= used;
  }
  return covered >= query.max_p;
}

// Adds the plans of the least f that the devices can reach.
void add_fastest_plans(const TypeLimits& types, const PlanQuery& query,
                       std::vector<RankedPlan>& plans) {
  const std::vector<double> times = step_times(types, query.max_p);
  const auto least = std::partition_point(times.begin(), times.end(),
                                          [&](double f) { return !can_cover(f, types, query); });
  const std::vector<std::uint32_t> none_before(types.size(), 0);
  if (least != times.end()) add_plans_at(*least, types, query, none_before, plans);
}

}  // namespace

std::vector<RankedPlan> enumerate_plans(const PlanQuery& query) {
  ES_CHECK(query.max_p > 0);
  std::vector<RankedPlan> plans;
  for (const TypeLimits& types : type_groups(query)) add_all_plans(types, query, plans);
  std::sort(plans.begin(), plans.end(), ranks_before);
  return plans;
}

std::optional<RankedPlan> best_plan(const PlanQuery& query) {
  ES_CHECK(query.max_p > 0);
  std::vector<RankedPlan> plans;
  for (const TypeLimits& types : type_groups(query)) add_fastest_plans(types, query, plans);
  const auto best = std::min_element(plans.begin(), plans.end(), ranks_before);
  if (best == plans.end()) return std::nullopt;
  return *best;
}

}  // namespace es::scheduler
