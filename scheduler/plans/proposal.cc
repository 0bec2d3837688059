#include "scheduler/plans/proposal.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "scheduler/plans/plan_search.h"
#include "scheduler/plans/plans.h"

namespace es::scheduler {
namespace {

// Seconds of the step to which speedups are relative: the present one, or that of one device of the
// fastest type.
double reference_seconds(const PlanQuery& held, const DeviceSet& addable) {
  if (const auto now = least_seconds(held)) return *now;
  double least = kAnySeconds;
  for (const DeviceCount& c : addable.counts) {
    const auto capability = held.capabilities.find(c.type);
    if (capability != held.capabilities.end())
      least = std::min(least, held.max_p / capability->second + held.sync.seconds(1));
  }
  return least;
}

// How the shortest step depends on the number of devices of one type in addition to those that are
// held.
class Growth {
 public:
  Growth(const PlanQuery& held, const DeviceType& type, std::uint32_t count_max)
      : search_(with_type(held, type, count_max)),
        sync_(held.sync),
        count_max_(count_max),
        held_(held.available.count_of(type)) {
    while (search_.types()[index_].type != type) ++index_;
  }

  struct Step {
    std::uint32_t count = 0;
    double seconds = 0;  // of the computation
    double total = 0;    // with communication, of the best plan within these devices
  };
  // The next count at which a step is shorter than `seconds`.
  std::optional<Step> next(double seconds) {
    // The longest time that is shorter needs the fewest devices, so it gives the next count.
    const std::optional<double> shorter = search_.next_below(seconds);
    if (!shorter || !reaches(*shorter, count_max_)) return std::nullopt;
    std::uint32_t low = 0;  // known to be too few
    std::uint32_t high = count_max_;
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      (reaches(*shorter, middle) ? high : low) = middle;
    }
    search_.set_available(index_, held_ + high);
    // With this count an even shorter time may be possible than the one that was asked for.
    Step step{high, *search_.least_seconds(*shorter), 0};
    step.total = sync_.empty() ? step.seconds : best_cover(search_, sync_)->seconds;
    // next_below() considers all addable devices.
    search_.set_available(index_, held_ + count_max_);
    return step;
  }

 private:
  // The types of the search: all held types and this one, or without mix_types only this one.
  static PlanSearch with_type(PlanQuery query, const DeviceType& type, std::uint32_t count_max) {
    if (!query.mix_types) {
      DeviceSet only;
      only.add(type, query.available.count_of(type));
      query.available = only;
    }
    query.available.add(type, count_max);
    return {search_types(query), query.max_p, device_limit(query)};
  }

  bool reaches(double seconds, std::uint32_t count) {
    search_.set_available(index_, held_ + count);
    const bool reached = search_.reaches(seconds);
    search_.set_available(index_, held_ + count_max_);
    return reached;
  }

  PlanSearch search_;
  const SyncCurve& sync_;
  const std::uint32_t count_max_;
  const std::uint32_t held_;
  std::size_t index_ = 0;  // index of the type
};

std::vector<Proposal> propose_type(const PlanQuery& held, const DeviceType& type,
                                   std::uint32_t count_max, double reference,
                                   const ProposalLimits& limits) {
  std::vector<Proposal> proposals;
  if (count_max == 0) return proposals;
  Growth growth(held, type, count_max);
  const bool holds = !held.available.empty();
  PlanQuery computes = held;
  computes.sync = {};
  double seconds = holds ? least_seconds(computes).value_or(kAnySeconds) : kAnySeconds;
  double best = kAnySeconds;
  while (const auto step = growth.next(seconds)) {
    seconds = step->seconds;
    // Communication makes this count no faster than a smaller one.
    if (step->total >= best) continue;
    best = step->total;
    Proposal proposal{type, step->count, reference / best};
    // A job without devices loses no steps by a change, so a pause does not reduce its speedup.
    if (holds)
      proposal.speedup = speedup_after_pause(proposal.speedup, limits.pause,
                                             Seconds(limits.steps_left * reference));
    if (!holds || proposal.speedup > 1) proposals.push_back(std::move(proposal));
  }
  std::sort(proposals.begin(), proposals.end(), better);
  // Sorted by gain, so the best ones stay.
  proposals.resize(std::min(proposals.size(), limits.per_type));
  return proposals;
}

}  // namespace

double gain_per_device(const Proposal& proposal) {
  // Rounded, so that two gains that are equal by their formula also compare as equal. Ties can then
  // be broken by rules that do not depend on rounding errors.
  return std::round((proposal.speedup - 1) / proposal.count * 1e9) / 1e9;
}

bool better(const Proposal& a, const Proposal& b) {
  const auto key = [](const Proposal& p) {
    return std::tuple(-gain_per_device(p), -double(p.count));
  };
  if (key(a) != key(b)) return key(a) < key(b);
  return a.type < b.type;
}

double speedup_after_pause(double speedup, Seconds pause, Seconds left) {
  // A job that ends now gains nothing. The division below would give NaN without a pause.
  if (left.count() == 0) return 0;
  return speedup / (1 + speedup * pause / left);
}

std::vector<Proposal> propose(const PlanQuery& held, const DeviceSet& addable,
                              const ProposalLimits& limits) {
  const std::uint32_t most = device_limit(held);
  const std::uint32_t holds = held.available.total();
  const double reference = reference_seconds(held, addable);

  std::vector<Proposal> proposals;
  for (const DeviceCount& c : addable.counts) {
    // A job of one type can only add to the type that it has.
    if (!held.mix_types && holds > 0 && held.available.count_of(c.type) == 0) continue;
    if (!held.capabilities.contains(c.type)) continue;
    // A plan with faster devices may drop slower ones, so those of other types leave room.
    const std::uint32_t own = held.available.count_of(c.type);
    const std::uint32_t room = most > own ? most - own : 0;
    const std::vector<Proposal> of_type =
        propose_type(held, c.type, std::min(c.count, room), reference, limits);
    proposals.insert(proposals.end(), of_type.begin(), of_type.end());
  }
  std::sort(proposals.begin(), proposals.end(), better);
  return proposals;
}

}  // namespace es::scheduler
