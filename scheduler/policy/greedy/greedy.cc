#include "scheduler/policy/greedy/greedy.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "scheduler/model/device_sets.h"
#include "scheduler/policy/greedy/missing_devices.h"

namespace es::scheduler {
namespace {

// One call of decide(): the view, and the state after the decisions so far.
class GreedyDecision {
 public:
  GreedyDecision(const ClusterView& view, bool homogeneous, GreedyIndex& index)
      : view_(view),
        homogeneous_(homogeneous),
        index_(index),
        free_(view.free),
        returning_(view.returning) {}
  // The index shows jobs with fewer devices while a decision calls them back. It describes the view
  // again afterwards, because the devices are still held until the jobs give them back.
  ~GreedyDecision() {
    for (const auto& [job, change] : changes_)
      if (!change.shrunk.empty()) index_.hold(view_, job.second, view_.jobs[job.second].held);
  }
  GreedyDecision(const GreedyDecision&) = delete;
  GreedyDecision& operator=(const GreedyDecision&) = delete;

  Decisions run() {
    // A pinned job gives back the devices that it holds beyond its demand, unless it waits for the
    // rest of its demand. Until it has that, it trains on all devices that it holds.
    for (const auto& [number, slot] : index_.pinned()) {
      const JobView& job = view_.jobs[slot];
      returning_ = sum(returning_, beyond(job.held, *job.pinned));
    }
    serve_needs();
    serve_proposals();
    return decisions();
  }

 private:
  using Job = GreedyIndex::Job;
  using CallBacks = std::vector<std::pair<std::size_t, DeviceType>>;  // one device of a job each
  struct Change {
    DeviceSet granted;
    DeviceSet shrunk;
  };

  // Takes the earliest submitted job from the heads of all groups. If the devices do not suffice
  // for a job, they do not suffice for the rest of its group, because devices only become fewer.
  void serve_needs() {
    using Head = std::tuple<Job, const std::set<Job>*, std::set<Job>::const_iterator>;
    const auto later = [](const Head& a, const Head& b) { return std::get<0>(a) > std::get<0>(b); };
    std::priority_queue<Head, std::vector<Head>, decltype(later)> heads(later);
    for (const auto& [group, jobs] : index_.waiting())
      heads.push({*jobs.begin(), &jobs, jobs.begin()});
    while (!heads.empty()) {
      auto [job, jobs, at] = heads.top();
      heads.pop();
      if (serve_need(job.second) && ++at != jobs->end()) heads.push({*at, jobs, at});
    }
  }

  // Returns false if the devices do not suffice.
  bool serve_need(std::size_t j) {
    if (const auto now = choose_missing(j, {})) {
      grant(j, *now);
    } else if (const auto later = choose_missing(j, sum(returning_, index_.extras()))) {
      reserve(j, *later);
    } else {
      return false;
    }
    return true;
  }

  std::optional<DeviceSet> choose_missing(std::size_t j, const DeviceSet& rest) const {
    const JobView& job = view_.jobs[j];
    return missing_devices(job, mixes(job), free_, rest);
  }

  bool mixes(const JobView& job) const { return job.mix_types && !homogeneous_; }

  bool is_changed(const Job& job) const {
    const auto at = changes_.find(job);
    return at != changes_.end() && !(at->second.granted.empty() && at->second.shrunk.empty());
  }
  Change& change_of(std::size_t j) { return changes_[{view_.jobs[j].number, j}]; }

  void grant(std::size_t j, const DeviceSet& devices) {
    free_ = beyond(free_, devices);
    change_of(j).granted = devices;
  }

  // Reserves the devices for a waiting job: free ones, then returning ones, then extra ones.
  void reserve(std::size_t j, const DeviceSet& devices) {
    const DeviceSet not_free = beyond(devices, free_);
    const DeviceSet not_returning = beyond(not_free, returning_);
    // extras() is an upper bound, so calling back may fail. Then the job reserves nothing.
    if (!call_back(not_returning)) return;
    waits_.push_back({.slot = j, .keeps = beyond(devices, not_free)});
    free_ = beyond(free_, devices);
    returning_ = beyond(returning_, not_free);
  }

  // Shrinks jobs by these devices in total. If that is not possible, shrinks none and returns
  // false.
  bool call_back(const DeviceSet& devices) {
    CallBacks done;
    for (const DeviceCount& c : devices.counts) {
      for (std::uint32_t i = 0; i < c.count; ++i) {
        const std::optional<std::size_t> j = index_.most_extra(c.type);
        if (!j) {
          // All or nothing: the devices that were called back so far would not suffice.
          for (const auto& [undone, type] : done) shrink(undone, type, false);
          return false;
        }
        shrink(*j, c.type, true);
        done.emplace_back(*j, c.type);
      }
    }
    return true;
  }

  // Shrinks the job by one device more, or by one less than before.
  void shrink(std::size_t j, const DeviceType& type, bool more) {
    DeviceSet& shrunk = change_of(j).shrunk;
    more ? shrunk.add(type, 1) : shrunk.remove(type, 1);
    index_.hold(view_, j, beyond(view_.jobs[j].held, shrunk));
  }

  // Gives the devices that are then free to the best proposals that fit, in the same way.
  void serve_proposals() {
    if (free_.empty()) return;
    using Set = std::set<GreedyIndex::Candidate>;
    using Key = std::tuple<double, std::int64_t, Job, const DeviceType*>;
    using Head = std::tuple<Key, const Set*, Set::const_iterator>;
    const auto behind = [](const Head& a, const Head& b) {
      const auto& [gain_a, count_a, job_a, type_a] = std::get<0>(a);
      const auto& [gain_b, count_b, job_b, type_b] = std::get<0>(b);
      return std::tie(gain_a, count_a, job_a, *type_a) > std::tie(gain_b, count_b, job_b, *type_b);
    };
    std::priority_queue<Head, std::vector<Head>, decltype(behind)> heads(behind);
    const auto push = [&](const DeviceType& type, std::int64_t count, const Set& set,
                          Set::const_iterator at) {
      if (at != set.end()) heads.push({{-at->gain, -count, at->job, &type}, &set, at});
    };
    for (const auto& [kind, set] : index_.candidates())
      if (kind.second <= free_.count_of(kind.first))
        push(kind.first, kind.second, set, set.begin());
    while (!heads.empty()) {
      const auto [key, set, at] = heads.top();
      heads.pop();
      const auto& [gain, count, job, type] = key;
      const auto devices = static_cast<std::uint32_t>(-count);
      if (devices > free_.count_of(*type)) continue;  // not enough for the rest of this set either
      // One grant or shrink for each job; a proposal is relative to what the job held before.
      if (!is_changed(job)) {
        DeviceSet granted;
        granted.add(*type, devices);
        grant(job.second, granted);
        change_of(job.second).shrunk =
            replaced_by({.type = *type, .count = devices}, view_.jobs[job.second]);
      }
      push(*type, devices, *set, std::next(at));
    }
  }

  Decisions decisions() {
    Decisions result;
    result.waits = std::move(waits_);
    for (const auto& [job, change] : changes_) {
      if (!change.granted.empty()) result.grants.push_back({job.second, change.granted});
      if (!change.shrunk.empty()) result.shrinks.push_back({job.second, change.shrunk});
    }
    return result;
  }

  const ClusterView& view_;
  const bool homogeneous_;
  GreedyIndex& index_;
  DeviceSet free_;
  DeviceSet returning_;
  std::map<Job, Change> changes_;
  std::vector<Wait> waits_;
};

}  // namespace

Decisions GreedyPolicy::decide(const ClusterView& view) {
  index_.update(view);
  return GreedyDecision(view, homogeneous_, index_).run();
}

}  // namespace es::scheduler
