#include "scheduler/plans/plan_search.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "proto/base/check.h"
#include "scheduler/plans/fewest_devices.h"

namespace es::scheduler {

std::vector<SearchType> search_types(const PlanQuery& query) {
  std::vector<SearchType> types;
  for (const DeviceCount& c : query.available.counts) {
    const auto capability = query.capabilities.find(c.type);
    if (capability != query.capabilities.end())
      types.push_back({c.type, capability->second, c.count});
  }
  std::sort(types.begin(), types.end(), [](const SearchType& a, const SearchType& b) {
    // Equal capabilities are ordered by name, so that the order is total and the same in every
    // head.
    return a.capability != b.capability ? a.capability > b.capability : a.type > b.type;
  });
  return types;
}

std::uint32_t device_limit(const PlanQuery& query) {
  return query.max_devices == 0 ? query.max_p : std::min(query.max_p, query.max_devices);
}

std::uint32_t places_within(double seconds, double capability, std::uint32_t max_p) {
  // If the product is far beyond max_p, ests_within() might not accept it.
  if (seconds * capability >= max_p + 1.0) return max_p;
  return std::min(max_p, ests_within(seconds, capability));
}

PlanSearch::PlanSearch(std::vector<SearchType> types, std::uint32_t max_p,
                       std::uint32_t max_devices)
    : types_(std::move(types)), max_p_(max_p), max_devices_(max_devices) {
  ES_CHECK(max_p > 0);
}

bool PlanSearch::reaches(double seconds) const {
  std::uint64_t places = 0;
  std::uint32_t devices = max_devices_;
  for (const SearchType& t : types_) {  // types with the most places first
    // The devices that may be used are best spent on the types with the most places, so the greedy
    // choice decides exactly.
    const std::uint32_t used = std::min(devices, t.available);
    if (used == 0) continue;
    places += std::uint64_t{used} * places_within(seconds, t.capability, max_p_);
    if (places >= max_p_) return true;
    devices -= used;
  }
  return false;
}

std::optional<double> PlanSearch::least_seconds(double seconds) const {
  std::optional<double> least;
  for (const SearchType& t : types_) {
    if (t.available == 0) continue;
    // Finds the least A for which A / C is reached, among those that would improve `least`.
    std::uint32_t low = 1;
    std::uint32_t high = places_within(least.value_or(seconds), t.capability, max_p_);
    if (high == 0 || !reaches(high / t.capability)) continue;
    // A longer time never leaves fewer places, so reaches() is monotonic in A and can be bisected.
    while (low < high) {
      const std::uint32_t middle = (low + high) / 2;
      if (reaches(middle / t.capability))
        high = middle;
      else
        low = middle + 1;
    }
    // reaches() holds for `high` throughout the search. Every possible step time is a quotient A /
    // C of some type, so the least of all types is the answer.
    least = high / t.capability;
  }
  return least;
}

std::optional<double> PlanSearch::next_below(double seconds) const {
  double next = 0;
  for (const SearchType& t : types_) {
    if (t.available == 0) continue;
    std::uint32_t ests = places_within(seconds, t.capability, max_p_);
    // The next time has to be shorter than `seconds`, which may be a quotient of this type itself.
    if (ests > 0 && ests / t.capability >= seconds) --ests;
    next = std::max(next, ests / t.capability);
  }
  if (next == 0) return std::nullopt;
  return next;
}

std::uint64_t PlanSearch::weight(const SearchType& type) const {
  // Integers, so that a sum does not depend on the order of its terms, and equal covers compare as
  // equal. The first type is the fastest one, so a weight is at most 2^30.
  return static_cast<std::uint64_t>(std::llround(type.capability / types_[0].capability * 0x1p30));
}

Cover PlanSearch::cover(double seconds, std::vector<std::uint32_t> counts) const {
  Cover cover{seconds, 0, 0, std::move(counts)};
  for (std::size_t i = 0; i < types_.size(); ++i) {
    cover.devices += cover.counts[i];
    cover.capability += cover.counts[i] * weight(types_[i]);
  }
  return cover;
}

Cover PlanSearch::best_at(double seconds) const {
  std::vector<CoverType> usable;
  std::vector<std::size_t> index;
  for (std::size_t i = 0; i < types_.size(); ++i) {
    const std::uint32_t places = places_within(seconds, types_[i].capability, max_p_);
    // A type that is too slow for one EST in this time cannot be part of a plan.
    if (places == 0 || types_[i].available == 0) continue;
    usable.push_back({places, types_[i].available, weight(types_[i])});
    index.push_back(i);
  }
  const std::vector<std::uint32_t> used = fewest_devices(usable, max_p_);
  std::vector<std::uint32_t> counts(types_.size(), 0);
  for (std::size_t i = 0; i < used.size(); ++i) counts[index[i]] = used[i];
  return cover(seconds, std::move(counts));
}

std::vector<PlanSearch> plan_searches(const PlanQuery& query) {
  const std::vector<SearchType> types = search_types(query);
  std::vector<PlanSearch> searches;
  if (types.empty()) return searches;
  if (query.mix_types) return {PlanSearch(types, query.max_p, device_limit(query))};
  for (std::size_t i = 0; i < types.size(); ++i) {
    std::vector<SearchType> only = types;
    for (std::size_t other = 0; other < only.size(); ++other)
      if (other != i) only[other].available = 0;
    searches.emplace_back(std::move(only), query.max_p, device_limit(query));
  }
  return searches;
}

bool TimedCover::operator<(const TimedCover& o) const {
  const auto key = [](const TimedCover& c) {
    // The computation is not part of it: with communication it may be longer on fewer devices.
    return std::tie(c.seconds, c.cover.devices, c.cover.capability, c.cover.counts);
  };
  return key(*this) < key(o);
}

std::optional<TimedCover> best_cover(const PlanSearch& search, const SyncCurve& sync,
                                     double seconds) {
  std::optional<TimedCover> best;
  PlanSearch smaller = search;
  while (const auto f = smaller.least_seconds(best ? best->seconds : seconds)) {
    Cover cover = smaller.best_at(*f);
    const std::uint32_t devices = cover.devices;
    TimedCover timed{std::move(cover), *f + sync.seconds(devices)};
    if (timed.seconds <= seconds && (!best || timed < *best)) best = std::move(timed);
    // Without communication fewer devices are never faster. With one device the limit becomes 0,
    // and nothing is reached.
    if (sync.empty()) break;
    smaller.set_max_devices(devices - 1);
  }
  return best;
}

RankedPlan ranked_plan(const PlanSearch& search, const Cover& cover,
                       const Capabilities& capabilities, const SyncCurve& sync) {
  RankedPlan ranked;
  for (std::size_t i = 0; i < cover.counts.size(); ++i) {
    if (cover.counts[i] == 0) continue;
    const SearchType& t = search.types()[i];
    ranked.plan.parts.push_back(
        {t.type, cover.counts[i], places_within(cover.seconds, t.capability, search.max_p())});
  }
  std::sort(ranked.plan.parts.begin(), ranked.plan.parts.end(),
            [](const PlanPart& a, const PlanPart& b) { return a.type < b.type; });
  ranked.estimate = estimate(ranked.plan, capabilities, search.max_p(), sync);
  return ranked;
}

}  // namespace es::scheduler
