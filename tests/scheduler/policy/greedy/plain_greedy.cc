#include "tests/scheduler/policy/greedy/plain_greedy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace es::test {
namespace {

using namespace scheduler;

using Pile = std::map<DeviceType, int>;  // number of devices of each type

int size(const Pile& pile) {
  int devices = 0;
  for (const auto& [type, count] : pile) devices += count;
  return devices;
}

int count_of(const Pile& pile, const DeviceType& type) {
  const auto at = pile.find(type);
  return at == pile.end() ? 0 : at->second;
}

Pile pile_of(const DeviceSet& set) {
  Pile pile;
  for (const DeviceCount& c : set.counts) pile[c.type] = static_cast<int>(c.count);
  return pile;
}

DeviceSet set_of(const Pile& pile) {
  DeviceSet set;
  for (const auto& [type, count] : pile)
    if (count > 0) set.add(type, static_cast<std::uint32_t>(count));
  return set;
}

// A job and what the decision has done to it so far.
struct Participant {
  std::size_t slot = 0;
  const JobView* job = nullptr;
  Pile held;  // without what was called back
  Pile granted;
  Pile called_back;
};

// Units of 1e-9. The gain is rounded, so that proposals that scale perfectly are exactly equal.
long long gain(const Proposal& p) {
  return std::llround((p.speedup - 1) / p.count * 1e9);
}

class PlainGreedy {
 public:
  PlainGreedy(const ClusterView& view, bool homogeneous)
      : homogeneous_(homogeneous), free_(pile_of(view.free)), returning_(pile_of(view.returning)) {
    for (std::size_t slot = 0; slot < view.jobs.size(); ++slot)
      if (const JobView& job = view.jobs[slot]; !job.id.empty())
        all_.push_back({slot, &job, pile_of(job.held), {}, {}});
    std::sort(all_.begin(), all_.end(), [](const Participant& a, const Participant& b) {
      return a.job->number < b.job->number;
    });
  }

  Decisions run() {
    for (const Participant& p : all_) expect_surplus_of_pinned(p);
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (lacks(all_[i])) serve_need(i);
    while (grant_best_proposal()) {
    }
    Decisions decisions;
    for (const Participant& p : all_) {
      if (size(p.granted) > 0) decisions.grants.push_back({p.slot, set_of(p.granted)});
      if (size(p.called_back) > 0) decisions.shrinks.push_back({p.slot, set_of(p.called_back)});
    }
    return decisions;
  }

 private:
  static bool lacks(const Participant& p) {
    const Pile held = pile_of(p.job->held);
    if (!p.job->pinned) return size(held) < static_cast<int>(p.job->min_devices);
    for (const DeviceCount& c : p.job->pinned->counts)
      if (count_of(held, c.type) < static_cast<int>(c.count)) return true;
    return false;
  }

  bool mixes(const JobView& job) const { return job.mix_types && !homogeneous_; }

  // A pinned job that has its demand gives back by itself what it holds beyond that.
  void expect_surplus_of_pinned(const Participant& p) {
    if (!p.job->pinned || lacks(p)) return;
    for (const auto& [type, count] : p.held)
      returning_[type] += count - static_cast<int>(p.job->pinned->count_of(type));
  }

  // Devices beyond its minimum, which may be called back.
  static int extra(const Participant& p) {
    if (p.job->pinned) return 0;
    return std::max(0, size(p.held) - static_cast<int>(p.job->min_devices));
  }

  // Devices of the type that jobs could give back, if each of them gave back this type first.
  int extras_of(const DeviceType& type) const {
    int sum = 0;
    for (const Participant& p : all_) sum += std::min(count_of(p.held, type), extra(p));
    return sum;
  }

  // Types that the job may be given: first those whose proposals gain most, then by name.
  std::vector<DeviceType> preferences(const JobView& job) const {
    std::vector<std::pair<long long, DeviceType>> keyed;
    for (const DeviceType& type : job.types) {
      if (!may_add(job, type)) continue;
      long long best = std::numeric_limits<long long>::min() + 1;
      for (const Proposal& p : job.proposals)
        if (p.type == type) best = std::max(best, gain(p));
      keyed.emplace_back(-best, type);
    }
    std::sort(keyed.begin(), keyed.end());
    std::vector<DeviceType> types;
    for (const auto& [key, type] : keyed) types.push_back(type);
    return types;
  }

  // A job without mixing adds only the type that it holds; if it holds a mix, it adds none.
  bool may_add(const JobView& job, const DeviceType& type) const {
    if (std::count(job.types.begin(), job.types.end(), type) == 0) return false;
    if (mixes(job)) return true;
    return std::all_of(job.held.counts.begin(), job.held.counts.end(),
                       [&](const DeviceCount& c) { return c.type == type; });
  }

  // Serves a need from free devices, or reserves devices for it that will be free later, or does
  // nothing.
  void serve_need(std::size_t i) {
    if (const Pile now = choose(*all_[i].job, {}); size(now) > 0) {
      for (const auto& [type, count] : now) free_[type] -= count;
      all_[i].granted = now;
      return;
    }
    Pile later = returning_;
    for (const Participant& p : all_)
      for (const auto& [type, count] : p.held) later.try_emplace(type, 0);
    for (auto& [type, count] : later) count += extras_of(type);
    reserve(choose(*all_[i].job, later));
  }

  // What the job lacks, out of free devices and those that may be free `later`. Empty if these do
  // not suffice.
  Pile choose(const JobView& job, const Pile& later) const {
    if (job.pinned) return choose_pinned(job, later);
    const int missing = static_cast<int>(job.min_devices) - static_cast<int>(job.held.total());
    const std::vector<DeviceType> types = preferences(job);
    if (mixes(job)) return choose_one_by_one(types, missing, later);
    for (const DeviceType& type : types)
      if (count_of(free_, type) + count_of(later, type) >= missing) return {{type, missing}};
    return {};
  }

  Pile choose_pinned(const JobView& job, const Pile& later) const {
    Pile chosen;
    for (const DeviceCount& c : job.pinned->counts) {
      const int missing = static_cast<int>(c.count) - static_cast<int>(job.held.count_of(c.type));
      if (missing <= 0) continue;
      if (count_of(free_, c.type) + count_of(later, c.type) < missing) return {};
      chosen[c.type] = missing;
    }
    return chosen;
  }

  // Each device is a free one of the most preferred type that has one; if no type has one, a later
  // device in the same order.
  Pile choose_one_by_one(const std::vector<DeviceType>& types, int missing, Pile later) const {
    Pile chosen, free = free_;
    for (; missing > 0; --missing) {
      Pile* source = nullptr;
      DeviceType type;
      for (Pile* pile : {&free, &later})
        for (const DeviceType& t : types)
          if (source == nullptr && count_of(*pile, t) > 0) source = pile, type = t;
      if (source == nullptr) return {};
      --(*source)[type];
      ++chosen[type];
    }
    return chosen;
  }

  // Reserves all of the devices or none: each one is free, or returning, or is called back.
  void reserve(const Pile& devices) {
    const PlainGreedy before = *this;
    for (const auto& [type, count] : devices) {
      for (int n = 0; n < count; ++n) {
        if (free_[type] > 0) {
          --free_[type];
        } else if (returning_[type] > 0) {
          --returning_[type];
        } else if (!call_back_one(type)) {
          free_ = before.free_;
          returning_ = before.returning_;
          all_ = before.all_;
          return;
        }
      }
    }
  }

  // The job with most extra devices gives one back; of equals the one that was submitted last.
  bool call_back_one(const DeviceType& type) {
    Participant* giver = nullptr;
    for (Participant& p : all_)
      if (count_of(p.held, type) > 0 && extra(p) > 0 && (!giver || extra(p) >= extra(*giver)))
        giver = &p;
    if (giver == nullptr) return false;
    --giver->held[type];
    ++giver->called_back[type];
    return true;
  }

  // Grants the best of all proposals that can be granted now. Returns false if there is none.
  bool grant_best_proposal() {
    Participant* winner = nullptr;
    const Proposal* best = nullptr;
    const auto key = [](const Participant& p, const Proposal& proposal) {
      return std::tuple(-gain(proposal), -static_cast<long long>(proposal.count), p.job->number,
                        proposal.type);
    };
    for (Participant& p : all_)
      for (const Proposal& proposal : p.job->proposals)
        if (may_grant(p, proposal) && (!best || key(p, proposal) < key(*winner, *best)))
          winner = &p, best = &proposal;
    if (best == nullptr) return false;
    free_[best->type] -= static_cast<int>(best->count);
    winner->granted[best->type] = static_cast<int>(best->count);
    winner->called_back = replaced(*winner->job, *best);
    return true;
  }

  bool may_grant(const Participant& p, const Proposal& proposal) const {
    const JobView& job = *p.job;
    if (job.pinned || !job.settled || lacks(p)) return false;
    if (size(p.granted) > 0 || size(p.called_back) > 0) return false;  // the proposal is outdated
    return proposal.speedup > 1 && may_add(job, proposal.type) &&
           static_cast<int>(proposal.count) <= count_of(free_, proposal.type) &&
           job.held.count_of(proposal.type) + proposal.count <= job.max_devices &&
           !refuses(job, proposal);
  }

  // One device after the other, always of the slowest type that is left.
  static Pile replaced(const JobView& job, const Proposal& proposal) {
    Pile kept = pile_of(job.held), gone;
    const auto speed = [&](const DeviceType& type) {
      const auto at = job.capabilities.find(type);
      return at == job.capabilities.end() ? 0 : at->second;
    };
    while (size(kept) + static_cast<int>(proposal.count) > static_cast<int>(job.max_devices)) {
      const DeviceType* slowest = nullptr;
      for (const auto& [type, count] : kept)
        if (count > 0 && type != proposal.type && (!slowest || speed(type) < speed(*slowest)))
          slowest = &type;
      --kept[*slowest];
      ++gone[*slowest];
    }
    return gone;
  }

  // A refusal names devices, and types of which the job wants no more together with them.
  static bool refuses(const JobView& job, const Proposal& proposal) {
    Pile after = pile_of(job.held);
    for (const auto& [type, count] : replaced(job, proposal)) after[type] -= count;
    after[proposal.type] += static_cast<int>(proposal.count);
    return std::any_of(job.refusals.begin(), job.refusals.end(), [&](const Refusal& refusal) {
      const Pile kept = pile_of(refusal.held);
      std::set<DeviceType> types;
      for (const auto& [type, count] : after) types.insert(type);
      for (const auto& [type, count] : kept) types.insert(type);
      bool is_more = false;
      for (const DeviceType& type : types) {
        const int more = count_of(after, type) - count_of(kept, type);
        if (more < 0) return false;
        if (more > 0 && std::count(refusal.types.begin(), refusal.types.end(), type) == 0)
          return false;
        is_more = is_more || more > 0;
      }
      return is_more;
    });
  }

  bool homogeneous_;
  Pile free_;
  Pile returning_;
  std::vector<Participant> all_;  // in submit order
};

}  // namespace

Decisions plain_greedy_decisions(const ClusterView& view, bool homogeneous) {
  return PlainGreedy(view, homogeneous).run();
}

}  // namespace es::test
