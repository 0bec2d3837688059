#include "actors/sim/report/guarantees.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "actors/sim/report/texts.h"
#include "proto/base/number_text.h"

namespace es::actors::simulator {
namespace {

using Counts = std::vector<std::int64_t>;

// What a job needs in order to run. Jobs with equal needs fit at the same times.
struct LeastNeed {
  std::vector<std::uint32_t> of_type;  // devices of one type that suffice; 0: none does
  std::uint32_t of_all = 0;            // of several types together; 0: they may not be mixed
  auto operator<=>(const LeastNeed&) const = default;

  bool fits(const Counts& room) const {
    std::int64_t usable = 0;
    for (std::size_t t = 0; t < room.size(); ++t) {
      if (of_type[t] == 0) continue;
      if (room[t] >= of_type[t]) return true;
      usable += std::max<std::int64_t>(room[t], 0);
    }
    return of_all > 0 && usable >= of_all;
  }
};

LeastNeed least_need_of(const WorkJob& job, const Workload& workload,
                        scheduler::StartsWith starts_with) {
  const ResourceSpec& asks = job.spec.resources;
  const std::uint32_t most = asks.max_devices > 0 ? asks.max_devices : job.spec.max_p;
  LeastNeed need;
  for (const DeviceCount& c : workload.cluster.counts) {
    const bool is_usable = job.capabilities.contains(c.type) && c.count >= asks.min_devices;
    const bool is_gang = starts_with == scheduler::StartsWith::kGang;
    const std::uint32_t devices = is_gang ? std::min(most, c.count) : asks.min_devices;
    need.of_type.push_back(is_usable ? devices : 0);
  }
  if (starts_with == scheduler::StartsWith::kMinimum && job.spec.level == DeterminismLevel::kD2)
    need.of_all = asks.min_devices;
  return need;
}

// One queue and those below it, from the first event to the last.
class QueueWatch {
 public:
  QueueWatch(const Counts& guarantee, double pause_s) : room_(guarantee), pause_s_(pause_s) {}

  void change_room(std::size_t type, std::int64_t change) { room_[type] += change; }
  void change_room(const std::vector<std::uint32_t>& held, int sign) {
    for (std::size_t t = 0; t < held.size(); ++t) room_[t] += sign * std::int64_t{held[t]};
  }
  void begin_wait(std::size_t job, const LeastNeed& need) {
    waiting_[need].jobs[job] = kNotYet;
    waiting_[need].fresh.push_back(job);
  }
  void end_wait(std::size_t job, const LeastNeed& need, double now_s) {
    auto& jobs = waiting_[need].jobs;
    const auto at = jobs.find(job);
    if (at == jobs.end()) return;
    note(job, at->second, now_s);
    jobs.erase(at);
  }
  // All changes of this moment have been made.
  void settle(double now_s) {
    for (auto& [need, waiting] : waiting_) {
      const bool fits = need.fits(room_);
      // Only a change concerns all that wait, which may be thousands.
      if (fits != std::exchange(waiting.fits, fits))
        for (auto& [job, since_s] : waiting.jobs) {
          if (!fits) note(job, since_s, now_s);
          since_s = fits ? now_s : kNotYet;
        }
      for (const std::size_t job : std::exchange(waiting.fresh, {}))
        if (const auto at = waiting.jobs.find(job); fits && at != waiting.jobs.end())
          at->second = now_s;
    }
  }
  std::vector<Guarantee::Wait> waits(const Workload& workload) && {
    std::ranges::stable_sort(waits_, {}, &WaitOfJob::from_s);
    std::vector<Guarantee::Wait> merged;
    std::set<std::size_t> jobs;
    for (const WaitOfJob& wait : waits_) {
      if (merged.empty() || wait.from_s > merged.back().until_s) {
        jobs.clear();
        merged.push_back({wait.from_s, wait.until_s, 1, workload.jobs[wait.job].id});
      }
      jobs.insert(wait.job);
      merged.back().jobs = jobs.size();
      merged.back().until_s = std::max(merged.back().until_s, wait.until_s);
    }
    return merged;
  }

 private:
  static constexpr double kNotYet = -1;  // the job does not fit
  struct Waiting {
    bool fits = false;
    std::map<std::size_t, double> jobs;  // since when each fits
    std::vector<std::size_t> fresh;      // that have begun to wait at this moment
  };
  struct WaitOfJob {
    double from_s = 0, until_s = 0;
    std::size_t job = 0;
  };
  void note(std::size_t job, double since_s, double now_s) {
    if (since_s != kNotYet && now_s - since_s > pause_s_) waits_.push_back({since_s, now_s, job});
  }

  Counts room_;  // of the guarantee beside what the queue has
  double pause_s_;
  std::map<LeastNeed, Waiting> waiting_;
  std::vector<WaitOfJob> waits_;
};

// Something that begins or ends. Ends come first: what a job leaves is there for the next one.
struct Event {
  double time_s = 0;
  bool begins = false;
  const JobSpan* span = nullptr;
  const store::TraceClaim* reservation = nullptr;
  auto key() const { return std::pair(time_s, begins); }
};

// The queue and the queues above it.
std::vector<std::string> path_of(const std::vector<scheduler::Queue>& queues,
                                 const std::string& name) {
  std::vector<std::string> path;
  for (const auto* queue = scheduler::find_queue(queues, name); queue != nullptr;
       queue = scheduler::find_queue(queues, queue->parent))
    path.push_back(queue->name);
  return path;
}

std::vector<Event> events_of(const SimulationResult& result, const GuaranteeRules& rules) {
  std::vector<Event> events;
  for (const JobSpan& span : result.spans) {
    events.push_back({span.from_s, true, &span, nullptr});
    events.push_back({span.until_s, false, &span, nullptr});
  }
  for (const store::TraceClaim& claim : rules.claims) {
    if (claim.queue.empty()) continue;
    events.push_back({claim.time_s, true, nullptr, &claim});
    events.push_back({claim.until_s, false, nullptr, &claim});
  }
  std::ranges::stable_sort(events, {}, &Event::key);
  return events;
}

// All queues together.
class Sweep {
 public:
  Sweep(const Workload& workload, const SimulationResult& result, const GuaranteeRules& rules)
      : workload_(workload), result_(result), rules_(rules) {
    for (const WorkJob& job : workload.jobs) {
      const ResourceSpec& asks = job.spec.resources;
      needs_.push_back(least_need_of(job, workload, rules.starts_with));
      paths_.push_back(
          path_of(rules.queues, scheduler::queue_of_job(rules.queues, asks.queue, asks.tenant)));
    }
    for (const scheduler::Queue& queue : rules.queues) {
      Counts counts;
      for (const DeviceType& type : result.types) counts.push_back(queue.guarantee.count_of(type));
      if (has_guarantee(queue)) watches_.emplace(queue.name, QueueWatch(counts, rules.pause_s));
    }
  }

  std::vector<Guarantee> run() && {
    const std::vector<Event> events = events_of(result_, rules_);
    for (std::size_t i = 0; i < events.size(); ++i) {
      apply(events[i]);
      const double now_s = events[i].time_s;
      if (i + 1 < events.size() && events[i + 1].time_s == now_s) continue;
      for (auto& [name, watch] : watches_) watch.settle(now_s);
    }
    std::vector<Guarantee> guarantees;
    for (const scheduler::Queue& queue : rules_.queues)
      if (const auto at = watches_.find(queue.name); at != watches_.end())
        guarantees.push_back({queue.name, std::move(at->second).waits(workload_)});
    return guarantees;
  }

 private:
  bool has_guarantee(const scheduler::Queue& queue) const {
    return !queue.guarantee.empty() ||
           std::ranges::any_of(rules_.claims, [&](const store::TraceClaim& claim) {
             return std::ranges::count(path_of(rules_.queues, claim.queue), queue.name) > 0;
           });
  }

  void apply(const Event& event) {
    if (event.reservation != nullptr) {
      for (const std::string& name : path_of(rules_.queues, event.reservation->queue))
        reserve(watches_.at(name), *event.reservation, event.begins);
      return;
    }
    for (const std::string& name : paths_[event.span->job])
      if (const auto at = watches_.find(name); at != watches_.end())
        follow(at->second, *event.span, event);
  }

  void reserve(QueueWatch& watch, const store::TraceClaim& claim, bool begins) const {
    for (std::size_t t = 0; t < result_.types.size(); ++t)
      if (result_.types[t].name == claim.type)
        watch.change_room(t, begins ? claim.count : -std::int64_t{claim.count});
  }

  void follow(QueueWatch& watch, const JobSpan& span, const Event& event) const {
    if (span.state != SpanState::kWaits) return watch.change_room(span.held, event.begins ? -1 : 1);
    if (event.begins) return watch.begin_wait(span.job, needs_[span.job]);
    watch.end_wait(span.job, needs_[span.job], event.time_s);
  }

  const Workload& workload_;
  const SimulationResult& result_;
  const GuaranteeRules& rules_;
  std::vector<LeastNeed> needs_;                 // by job
  std::vector<std::vector<std::string>> paths_;  // by job: its queue and those above
  std::map<std::string, QueueWatch> watches_;    // by queue
};

}  // namespace

double Guarantee::waited_s() const {
  double sum = 0;
  for (const Wait& wait : waits) sum += wait.until_s - wait.from_s;
  return sum;
}

std::vector<Guarantee> guarantees_of(const Workload& workload, const SimulationResult& result,
                                     const GuaranteeRules& rules) {
  return Sweep(workload, result, rules).run();
}

std::string guarantees_csv(const std::vector<Guarantee>& guarantees) {
  std::ostringstream out;
  out << "queue,from_s,seconds,jobs,first_job\n";
  for (const Guarantee& guarantee : guarantees)
    for (const Guarantee::Wait& wait : guarantee.waits)
      out << csv_field(guarantee.queue) << ',' << number_text(wait.from_s) << ','
          << number_text(wait.until_s - wait.from_s) << ',' << wait.jobs << ','
          << csv_field(wait.first_job) << '\n';
  return out.str();
}

}  // namespace es::actors::simulator
