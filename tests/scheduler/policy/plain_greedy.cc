#include "tests/scheduler/policy/plain_greedy.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "scheduler/model/device_sets.h"
#include "scheduler/policy/greedy/missing_devices.h"

namespace es::test {
namespace {

using namespace scheduler;

bool may_use(const JobView& job, const DeviceType& type) {
  return std::find(job.types.begin(), job.types.end(), type) != job.types.end();
}

std::vector<std::size_t> submit_order(const ClusterView& view) {
  std::vector<std::size_t> slots;
  for (std::size_t j = 0; j < view.jobs.size(); ++j)
    if (!view.jobs[j].id.empty()) slots.push_back(j);
  std::sort(slots.begin(), slots.end(), [&](std::size_t a, std::size_t b) {
    return view.jobs[a].number < view.jobs[b].number;
  });
  return slots;
}

// The allowed types that the job can still add: all, or the one that it has.
std::vector<DeviceType> addable_types(const JobView& job, bool mix_types) {
  if (mix_types || job.held.empty()) return job.types;
  const DeviceType& only = job.held.counts.front().type;
  if (job.held.counts.size() > 1 || !may_use(job, only)) return {};
  return {only};
}

// One call of decide(): the view, and its changes by the decisions so far.
class Round {
 public:
  Round(const ClusterView& view, bool homogeneous)
      : view_(view),
        homogeneous_(homogeneous),
        free_(view.free),
        returning_(view.returning),
        order_(submit_order(view)),
        jobs_(view.jobs.size()) {
    for (const std::size_t j : order_) jobs_[j].held = view.jobs[j].held;
    count_extras();
  }

  Decisions run() {
    for (const std::size_t j : order_) expect_excess(j);
    for (const std::size_t j : order_) serve_need(j);
    serve_proposals();
    return decisions();
  }

 private:
  struct JobState {
    DeviceSet held;  // By the view, without the devices that are called back.
    DeviceSet granted;
    DeviceSet shrunk;
  };
  using CallBacks = std::vector<std::pair<std::size_t, DeviceType>>;  // One device of a job each.

  bool is_waiting(std::size_t j) const {
    const JobView& job = view_.jobs[j];
    return job.pinned ? !job.held.contains(*job.pinned) : job.held.total() < job.min_devices;
  }

  // The devices that may be called back from the job.
  std::uint32_t extra(std::size_t j) const {
    const JobView& job = view_.jobs[j];
    const std::uint32_t held = jobs_[j].held.total();
    return job.pinned || held <= job.min_devices ? 0 : held - job.min_devices;
  }

  // An upper bound: an extra device of a job with two types is counted under both.
  void count_extras() {
    extras_ = {};
    for (const std::size_t j : order_)
      for (const DeviceCount& c : jobs_[j].held.counts)
        extras_.add(c.type, std::min(c.count, extra(j)));
  }

  // A pinned job gives back the devices beyond its demand, unless it waits for others: until then
  // it needs the devices that it has.
  void expect_excess(std::size_t j) {
    const JobView& job = view_.jobs[j];
    if (job.pinned && !is_waiting(j)) returning_ = sum(returning_, beyond(job.held, *job.pinned));
  }

  void serve_need(std::size_t j) {
    if (!is_waiting(j)) return;
    if (const auto now = choose_missing(j, {})) {
      grant(j, *now);
    } else if (const auto later = choose_missing(j, sum(returning_, extras_))) {
      reserve(*later);
    }
  }

  std::optional<DeviceSet> choose_missing(std::size_t j, const DeviceSet& rest) const {
    const JobView& job = view_.jobs[j];
    return missing_devices(job, mixes(job), free_, rest);
  }

  bool mixes(const JobView& job) const { return job.mix_types && !homogeneous_; }

  void grant(std::size_t j, const DeviceSet& devices) {
    free_ = beyond(free_, devices);
    jobs_[j].granted = devices;
  }

  // Keeps the devices for a waiting job: free ones, then returning ones, then extra ones.
  void reserve(const DeviceSet& devices) {
    const DeviceSet not_free = beyond(devices, free_);
    const DeviceSet not_returning = beyond(not_free, returning_);
    if (!call_back(not_returning)) return;
    free_ = beyond(free_, devices);
    returning_ = beyond(returning_, not_free);
  }

  // Shrinks jobs by these devices in total. If that is not possible, shrinks no job.
  bool call_back(const DeviceSet& devices) {
    CallBacks done;
    for (const DeviceCount& c : devices.counts) {
      for (std::uint32_t i = 0; i < c.count; ++i) {
        const std::optional<std::size_t> j = most_extra(c.type);
        if (!j) {
          for (const auto& [undone, type] : done) {
            jobs_[undone].held.add(type, 1);
            jobs_[undone].shrunk.remove(type, 1);
          }
          return false;
        }
        jobs_[*j].held.remove(c.type, 1);
        jobs_[*j].shrunk.add(c.type, 1);
        done.emplace_back(*j, c.type);
      }
    }
    if (!done.empty()) count_extras();
    return true;
  }

  std::optional<std::size_t> most_extra(const DeviceType& type) const {
    std::optional<std::size_t> best;
    for (const std::size_t j : order_)
      if (extra(j) > 0 && jobs_[j].held.count_of(type) > 0 && (!best || extra(j) >= extra(*best)))
        best = j;
    return best;
  }

  struct Candidate {
    std::size_t job = 0;
    const Proposal* proposal = nullptr;
  };

  bool fits(const Candidate& candidate) const {
    const JobView& job = view_.jobs[candidate.job];
    const Proposal& p = *candidate.proposal;
    const std::vector<DeviceType> types = addable_types(job, mixes(job));
    DeviceSet after = job.held;
    after.add(p.type, p.count);
    return p.speedup > 1 && refusal_of(job.refusals, after) == nullptr &&
           jobs_[candidate.job].granted.empty() && p.count <= free_.count_of(p.type) &&
           job.held.total() + p.count <= job.max_devices &&
           std::find(types.begin(), types.end(), p.type) != types.end();
  }

  bool may_grow(std::size_t j) const {
    const JobView& job = view_.jobs[j];
    return job.settled && !job.pinned && !is_waiting(j) && jobs_[j].shrunk.empty();
  }

  void serve_proposals() {
    if (free_.empty()) return;
    std::vector<Candidate> candidates;
    for (const std::size_t j : order_)
      if (may_grow(j))
        for (const Proposal& p : view_.jobs[j].proposals) candidates.push_back({j, &p});
    const auto key = [this](const Candidate& c) {
      return std::tuple(-gain_per_device(*c.proposal), -double(c.proposal->count),
                        view_.jobs[c.job].number, std::string_view(c.proposal->type.name));
    };
    std::sort(candidates.begin(), candidates.end(),
              [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
    for (const Candidate& candidate : candidates) {
      if (!fits(candidate)) continue;
      DeviceSet devices;
      devices.add(candidate.proposal->type, candidate.proposal->count);
      grant(candidate.job, devices);
    }
  }

  Decisions decisions() const {
    Decisions result;
    for (const std::size_t j : order_) {
      if (!jobs_[j].granted.empty()) result.grants.push_back({j, jobs_[j].granted});
      if (!jobs_[j].shrunk.empty()) result.shrinks.push_back({j, jobs_[j].shrunk});
    }
    return result;
  }

  const ClusterView& view_;
  const bool homogeneous_;
  DeviceSet free_;
  DeviceSet returning_;
  DeviceSet extras_;
  const std::vector<std::size_t> order_;  // The slots of the jobs, in submit order.
  std::vector<JobState> jobs_;            // By slot.
};

}  // namespace

Decisions decide_plainly(const ClusterView& view, bool homogeneous) {
  return Round(view, homogeneous).run();
}

}  // namespace es::test
