#include "scheduler/plans/plans.h"

#include <algorithm>
#include <functional>

#include "proto/base/check.h"
#include "scheduler/plans/plan_search.h"

namespace es::scheduler {
namespace {

struct Found {
  const PlanSearch* search = nullptr;
  Cover cover;
};

// All step times that a plan can have, ascending.
std::vector<double> step_times(const PlanSearch& search) {
  std::vector<double> seconds;
  for (const SearchType& t : search.types())
    for (std::uint32_t ests = 1; t.available > 0 && ests <= search.max_p(); ++ests)
      seconds.push_back(ests / t.capability);
  std::sort(seconds.begin(), seconds.end());
  // A step takes A / C of its slowest device, so there are no other times.
  seconds.erase(std::unique(seconds.begin(), seconds.end()), seconds.end());
  return seconds;
}

using Places = std::vector<std::uint32_t>;  // by type

Places places_at(double f, const PlanSearch& search) {
  Places places;
  for (const SearchType& t : search.types())
    places.push_back(places_within(f, t.capability, search.max_p()));
  return places;
}

std::uint64_t places_of(const std::vector<std::uint32_t>& counts, const Places& places) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) sum += std::uint64_t{counts[i]} * places[i];
  return sum;
}

// Visits the minimal covers of max_p at one f: counts of devices by type that have places for max_p
// ESTs, where no device can be omitted.
class CoverSearch {
 public:
  // Returns false to stop.
  using Visit = std::function<bool(const std::vector<std::uint32_t>& counts)>;

  // Decrements `steps_left` at each step. The search ends when it is 0.
  CoverSearch(const PlanSearch& search, const Places& places, std::uint64_t& steps_left)
      : types_(search.types()),
        max_p_(search.max_p()),
        max_devices_(search.max_devices()),
        places_(places),
        steps_left_(steps_left),
        reachable_(types_.size() + 1, 0),
        counts_(types_.size(), 0) {
    for (std::size_t i = types_.size(); i-- > 0;)
      reachable_[i] = reachable_[i + 1] + std::uint64_t{places_[i]} * types_[i].available;
  }

  bool visit_all(const Visit& visit) { return extend(0, 0, 0, visit); }

 private:
  bool extend(std::size_t i, std::uint64_t covered, std::uint32_t devices, const Visit& visit) {
    if (steps_left_ == 0) return false;
    --steps_left_;
    // Further types would only add devices that can be omitted. A cover that is not minimal is
    // passed over, and the search goes on.
    if (covered >= max_p_) return !is_minimal(covered) || visit(counts_);
    // The remaining types cannot cover the rest.
    if (covered + reachable_[i] < max_p_) return true;
    // A minimal cover has at most as many devices of this type as cover the rest.
    const std::uint32_t enough =
        places_[i] == 0 ? 0 : static_cast<std::uint32_t>((max_p_ - covered - 1) / places_[i] + 1);
    // Earlier types were bounded in the same way, so the difference does not wrap around.
    const std::uint32_t most = std::min({enough, types_[i].available, max_devices_ - devices});
    bool continues = true;
    for (std::uint32_t n = 0; n <= most && continues; ++n) {
      counts_[i] = n;
      continues = extend(i + 1, covered + std::uint64_t{n} * places_[i], devices + n, visit);
    }
    counts_[i] = 0;
    return continues;
  }

  bool is_minimal(std::uint64_t covered) const {
    for (std::size_t i = 0; i < counts_.size(); ++i)
      // One device of this type could be omitted.
      if (counts_[i] > 0 && covered - places_[i] >= max_p_) return false;
    return true;
  }

  const std::vector<SearchType>& types_;
  const std::uint32_t max_p_;
  const std::uint32_t max_devices_;
  const Places& places_;  // a_i
  std::uint64_t& steps_left_;
  std::vector<std::uint64_t> reachable_;  // places of all available devices of types i and later
  std::vector<std::uint32_t> counts_;
};

// Adds all plans that are not dominated. Returns false if they are too many.
bool add_all(const PlanSearch& search, const ListLimits& limits, std::vector<Found>& found) {
  std::uint64_t steps_left = limits.steps;
  Places before(search.types().size(), 0);  // a_i at the next smaller f
  for (const double f : step_times(search)) {
    const Places places = places_at(f, search);
    CoverSearch covers(search, places, steps_left);
    const bool done = covers.visit_all([&](const std::vector<std::uint32_t>& counts) {
      // A cover that also suffices at the next smaller f is a plan of that f.
      if (places_of(counts, before) < search.max_p())
        found.push_back({&search, search.cover(f, counts)});
      // One more than allowed is enough to know that there are too many.
      return found.size() <= limits.plans;
    });
    if (!done) return false;
    before = places;
  }
  return true;
}

// Adds the best plan for each limit of the total number of devices.
void add_frontier(const PlanSearch& search, std::vector<Found>& found) {
  PlanSearch smaller = search;
  while (const std::optional<double> f = smaller.least_seconds()) {
    found.push_back({&search, smaller.best_at(*f)});
    // Every cover has at least one device, so the limit does not wrap around. With the limit 0
    // nothing is reached, and the loop ends.
    smaller.set_max_devices(found.back().cover.devices - 1);
  }
}

TimedCover timed(const Found& found, const SyncCurve& sync) {
  return {found.cover, found.cover.seconds + sync.seconds(found.cover.devices)};
}

}  // namespace

std::optional<double> least_seconds(const PlanQuery& query) {
  std::optional<double> least;
  for (const PlanSearch& search : plan_searches(query)) {
    if (query.sync.empty()) {
      if (const auto seconds = search.least_seconds(least.value_or(kAnySeconds))) least = seconds;
    } else if (const auto best = best_cover(search, query.sync, least.value_or(kAnySeconds))) {
      least = best->seconds;
    }
  }
  return least;
}

std::optional<RankedPlan> best_plan(const PlanQuery& query) {
  const std::vector<PlanSearch> searches = plan_searches(query);
  std::optional<TimedCover> best;
  const PlanSearch* of = nullptr;
  for (const PlanSearch& search : searches) {
    auto found = best_cover(search, query.sync, best ? best->seconds : kAnySeconds);
    // Searches of different types may reach the same time. The comparison then goes on with the
    // number of devices, as in a list.
    if (found && (!best || *found < *best)) best = std::move(found), of = &search;
  }
  if (!best) return std::nullopt;
  return ranked_plan(*of, best->cover, query.capabilities, query.sync);
}

PlanList list_plans(const PlanQuery& query, const ListLimits& limits) {
  const std::vector<PlanSearch> searches = plan_searches(query);
  PlanList list;
  std::vector<Found> all;
  for (const PlanSearch& search : searches) {
    std::vector<Found> found;
    if (!add_all(search, limits, found)) {
      list.complete = false;
      // The list was cut at an arbitrary place and could miss the best plans. The frontier is short
      // and contains the best plan for each number of devices.
      found.clear();
      add_frontier(search, found);
    }
    all.insert(all.end(), found.begin(), found.end());
  }
  std::sort(all.begin(), all.end(), [&](const Found& a, const Found& b) {
    return timed(a, query.sync) < timed(b, query.sync);
  });
  if (all.size() > limits.plans) {
    all.resize(limits.plans);
    list.complete = false;
  }
  for (const Found& f : all)
    list.plans.push_back(ranked_plan(*f.search, f.cover, query.capabilities, query.sync));
  return list;
}

}  // namespace es::scheduler
