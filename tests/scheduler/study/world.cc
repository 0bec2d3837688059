#include "tests/scheduler/study/world.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <queue>

#include "proto/base/check.h"
#include "scheduler/model/device_sets.h"
#include "scheduler/policy/common/speed.h"

namespace es::study {
namespace {

using scheduler::beyond;
using scheduler::ClusterView;
using scheduler::JobView;
using scheduler::Seconds;
using scheduler::sum;

struct Running {
  std::size_t job = 0;        // Index into the trace.
  std::uint64_t version = 0;  // The number of its expected end; older ends are stale.
  double computing = 0;       // The devices that its plan uses.
  bool was_without = false;   // It held nothing before its last change.
};

struct End {
  double at_s;
  std::size_t slot;
  std::uint64_t version;
  bool operator>(const End& o) const { return at_s != o.at_s ? at_s > o.at_s : slot > o.slot; }
};

// How a job runs on devices: its speed, and the number of devices that its plan uses.
struct Pace {
  double speed = 0;
  double computing = 0;
};

Pace pace(const JobView& job) {
  std::vector<std::uint32_t> counts;
  std::vector<double> speeds;
  for (const DeviceCount& c : job.held.counts) {
    const auto known = job.capabilities.find(c.type);
    if (known == job.capabilities.end()) continue;
    counts.push_back(c.count);
    speeds.push_back(known->second);
  }
  if (counts.empty()) return {};
  Pace result{scheduler::mixed_speed(job.max_p, counts, speeds, job.sync), 0};
  scheduler::trim_to_speed(job.max_p, result.speed, counts, speeds, job.sync);
  for (const std::uint32_t c : counts) result.computing += c;
  return result;
}

// The time that this thread has had of a processor, so that other programs do not count.
double processor_ms() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

class World {
 public:
  World(const Trace& trace, scheduler::Policy& policy, const Rules& rules)
      : trace_(trace), policy_(policy), rules_(rules), results_(trace.jobs.size()) {
    view_.free = view_.total = trace.cluster;
    view_.queues = rules.queues;
    view_.changed.emplace();
  }

  Report run() {
    while (next_job_ < trace_.jobs.size() || alive_ > 0) {
      advance(next_time());
      finish_jobs();
      submit_jobs();
      decide();
    }
    return report();
  }

 private:
  double next_time() {
    while (!ends_.empty() && ends_.top().version != running_[ends_.top().slot].version) ends_.pop();
    double next = again_s_;
    if (next_job_ < trace_.jobs.size()) next = std::min(next, trace_.jobs[next_job_].submit_s);
    if (!ends_.empty()) next = std::min(next, ends_.top().at_s);
    ES_CHECK_MSG(next < scheduler::kNever.count(), "jobs wait in an idle cluster");
    if (rules_.round_s == 0) return next;
    const double round = std::ceil(next / rules_.round_s) * rules_.round_s;
    return std::max(round, view_.now.count() + rules_.round_s);
  }

  void advance(double to_s) {
    const double dt = to_s - view_.now.count();
    held_s_ += dt * held_;
    computing_s_ += dt * computing_;
    view_.job_seconds += dt * alive_;
    view_.now = Seconds(to_s);
  }

  void finish_jobs() {
    while (!ends_.empty() && ends_.top().at_s <= view_.now.count()) {
      const End end = ends_.top();
      ends_.pop();
      if (end.version != running_[end.slot].version) continue;
      finish(end.slot, end.at_s);
    }
  }

  void finish(std::size_t slot, double end_s) {
    JobView& job = view_.jobs[slot];
    JobResult& result = results_[running_[slot].job];
    result.end_s = end_s;
    const double jct = end_s - result.submit_s;
    // In rounds the job left a little earlier than it is taken off the count.
    const double n =
        (view_.job_seconds - job.job_seconds_at_submit) / (view_.now - job.submitted).count();
    const Job& from = trace_.jobs[running_[slot].job];
    result.rho = jct / fair_seconds(job, from.capabilities, std::max(1.0, n));
    view_.free = sum(view_.free, job.held);
    leave(slot);
    job = {};
    ++running_[slot].version;
    free_slots_.push(slot);
    view_.changed->push_back(slot);
    --alive_;
  }

  // With any of the types that it could have used, also if it is bound to one now.
  double fair_seconds(const JobView& job, const scheduler::Capabilities& capabilities,
                      double n) const {
    std::vector<std::uint32_t> counts;
    std::vector<double> speeds;
    double all = 0, best = 0;
    for (const auto& [type, speed] : capabilities) {
      const std::uint32_t total = trace_.cluster.count_of(type);
      if (total == 0) continue;
      counts.push_back(total);
      speeds.push_back(speed);
      all += speed * total;
      best = std::max(best, scheduler::one_type_speed(job.max_p, total, speed));
    }
    if (job.mix_types) best = scheduler::mixed_speed(job.max_p, counts, speeds);
    return rules_.start_s + job.work.total_steps / std::min(best, all / n);
  }

  void submit_jobs() {
    while (next_job_ < trace_.jobs.size() && trace_.jobs[next_job_].submit_s <= view_.now.count())
      submit(next_job_++);
  }

  void submit(std::size_t index) {
    const Job& from = trace_.jobs[index];
    if (free_slots_.empty()) {
      free_slots_.push(view_.jobs.size());
      view_.jobs.emplace_back();
      running_.emplace_back();
    }
    const std::size_t slot = free_slots_.top();
    free_slots_.pop();
    JobView& job = view_.jobs[slot];
    job.id = from.id;
    job.number = index;
    job.submitted = Seconds(from.submit_s);
    job.queue = from.tenant;
    job.priority = from.priority;
    job.deadline = Seconds(from.deadline_s);
    job.min_devices = from.min_devices;
    job.max_devices = job.max_p = from.max_p;
    job.mix_types = from.mix_types;
    job.gang_type = from.gang_type;
    for (const auto& [type, speed] : from.capabilities) job.types.push_back(type);
    job.capabilities = from.capabilities;
    job.work.total_steps = job.work.remaining_steps = from.steps;
    job.work.as_of = view_.now;
    job.start_pause = Seconds(rules_.start_s);
    job.rescale_pause = Seconds(rules_.rescale_s);
    job.suspend_pause = Seconds(suspend_s());
    if (rules_.sync_s > 0) job.sync.set({101, 100 * rules_.sync_s});
    job.job_seconds_at_submit =
        view_.job_seconds - (view_.now.count() - from.submit_s);  // rounds admit it late
    propose(job);
    running_[slot].job = index;
    results_[index].id = from.id;
    results_[index].submit_s = from.submit_s;
    results_[index].start_s = scheduler::kNever.count();
    ++alive_;
    view_.changed->push_back(slot);
  }

  void propose(JobView& job) const {
    job.proposals.clear();
    const std::uint32_t held = job.held.total();
    if (held >= job.max_devices) return;
    if (rules_.real_proposals) {
      propose_for_real(job);
      return;
    }
    for (const DeviceType& type : job.types)
      if (job.mix_types || held == 0 || job.held.count_of(type) > 0)
        job.proposals.push_back({type, job.max_devices - held, 1.5});
  }

  void propose_for_real(JobView& job) const {
    scheduler::PlanQuery query;
    query.max_p = job.max_p;
    query.capabilities = job.capabilities;
    query.available = job.held;
    query.max_devices = job.max_devices;
    query.mix_types = job.mix_types;
    query.sync = job.sync;
    scheduler::ProposalLimits limits;
    limits.pause = Seconds(rules_.rescale_s);
    limits.steps_left = remaining_steps_at(job, view_.now) / job.max_p;
    job.proposals = scheduler::propose(query, view_.total, limits);
  }

  void decide() {
    for (int round = 0;; ++round) {
      ES_CHECK_MSG(round < 10000, "a policy decides for ever");
      const double start_ms = processor_ms();
      const scheduler::Decisions decisions = policy_.decide(view_);
      const double took_ms = processor_ms() - start_ms;
      decision_ms_ += took_ms;
      decision_ms_max_ = std::max(decision_ms_max_, took_ms);
      ++decisions_;
      const Status status = check_decisions(view_, decisions);
      ES_CHECK_MSG(status.ok(), status.error().message);
      view_.changed->clear();
      again_s_ = decisions.again_at.count();
      if (decisions.grants.empty() && decisions.shrinks.empty()) return;
      apply(decisions);
    }
  }

  void apply(const scheduler::Decisions& decisions) {
    std::vector<std::size_t> touched;
    for (const auto* list : {&decisions.shrinks, &decisions.grants})
      for (const scheduler::Change& change : *list) touched.push_back(change.slot);
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (const std::size_t slot : touched) leave(slot);
    for (const scheduler::Change& c : decisions.shrinks) {
      view_.jobs[c.slot].held = beyond(view_.jobs[c.slot].held, c.devices);
      view_.free = sum(view_.free, c.devices);
    }
    for (const scheduler::Change& c : decisions.grants) {
      view_.jobs[c.slot].held = sum(view_.jobs[c.slot].held, c.devices);
      view_.free = beyond(view_.free, c.devices);
    }
    for (const std::size_t slot : touched) enter(slot);
  }

  // The job stops on the devices that it holds, and its progress is settled.
  void leave(std::size_t slot) {
    JobView& job = view_.jobs[slot];
    const Seconds now = view_.now;
    scheduler::advance_work(job, now);
    if (job.started) ++job.work.changes;
    job.started = job.started || (!job.held.empty() && job.work.paused_until <= now);
    results_[running_[slot].job].pause_s -=
        job.held.empty() ? 0 : std::max(0.0, (job.work.paused_until - now).count());
    job.work.steps_per_s = 0;
    if (!again_at_once(job)) running_[slot].was_without = job.held.empty();
    held_ -= job.held.total();
    computing_ -= running_[slot].computing;
    computing_s_ += running_[slot].computing * std::max(0.0, (job.work.paused_until - now).count());
    running_[slot].computing = 0;
  }

  // The job continues with the devices that it holds now.
  void enter(std::size_t slot) {
    JobView& job = view_.jobs[slot];
    JobResult& result = results_[running_[slot].job];
    const Seconds now = view_.now;
    const bool again = again_at_once(job);
    job.changed = now;
    propose(job);
    view_.changed->push_back(slot);
    ++running_[slot].version;
    if (job.held.empty()) return;
    if (!job.mix_types) bind_to_type(job);
    result.start_s = std::min(result.start_s, now.count());
    if (job.started && !again) ++result.rescales;
    // A first start that was interrupted begins anew.
    const Seconds pause(!job.started                 ? rules_.start_s
                        : running_[slot].was_without ? suspend_s()
                                                     : rules_.rescale_s);
    job.work.paused_until = std::max(job.work.paused_until, now + pause);
    result.pause_s += (job.work.paused_until - now).count();
    const Pace p = pace(job);
    job.work.steps_per_s = p.speed;
    held_ += job.held.total();
    running_[slot].computing = p.computing;
    computing_ += p.computing;
    computing_s_ -= p.computing * (job.work.paused_until - now).count();  // they wait until then
    ends_.push({job.work.paused_until.count() + job.work.remaining_steps / p.speed, slot,
                running_[slot].version});
  }

  static void bind_to_type(JobView& job) {
    const DeviceType type = job.held.counts.front().type;
    job.types = {type};
    std::erase_if(job.capabilities, [&](const auto& known) { return known.first != type; });
  }

  double suspend_s() const { return rules_.suspend_s < 0 ? rules_.rescale_s : rules_.suspend_s; }
  // The second decision of one instant.
  bool again_at_once(const JobView& job) const { return job.changed == view_.now; }

  Report report() {
    Report r;
    r.jobs = results_;
    std::vector<double> jcts;
    for (const JobResult& job : results_) {
      jcts.push_back(job.end_s - job.submit_s);
      r.avg_jct_s += jcts.back();
      r.avg_queue_s += job.start_s - job.submit_s;
      r.makespan_s = std::max(r.makespan_s, job.end_s);
      r.worst_rho = std::max(r.worst_rho, job.rho);
      r.mean_rho += job.rho;
      r.rescales += static_cast<std::uint64_t>(job.rescales);
      r.pause_s += job.pause_s;
    }
    const double n = static_cast<double>(jcts.size());
    for (double* mean : {&r.avg_jct_s, &r.avg_queue_s, &r.mean_rho}) *mean /= n;
    std::sort(jcts.begin(), jcts.end());
    r.p50_jct_s = jcts[jcts.size() / 2];
    r.p99_jct_s = jcts[jcts.size() * 99 / 100];
    r.held_mean = held_s_ / r.makespan_s;
    r.computing_mean = computing_s_ / r.makespan_s;
    r.decisions = decisions_;
    r.decision_ms_mean = decision_ms_ / static_cast<double>(decisions_);
    r.decision_ms_max = decision_ms_max_;
    return r;
  }

  const Trace& trace_;
  scheduler::Policy& policy_;
  const Rules& rules_;
  ClusterView view_;
  std::vector<Running> running_;  // By slot.
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> free_slots_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::vector<JobResult> results_;
  std::size_t next_job_ = 0;
  double alive_ = 0;
  double again_s_ = scheduler::kNever.count();
  double held_ = 0, computing_ = 0;      // devices now
  double held_s_ = 0, computing_s_ = 0;  // integrals over time
  std::uint64_t decisions_ = 0;
  double decision_ms_ = 0, decision_ms_max_ = 0;
};

}  // namespace

Report run(const Trace& trace, scheduler::Policy& policy, const Rules& rules) {
  return World(trace, policy, rules).run();
}

}  // namespace es::study
