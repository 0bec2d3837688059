// IntraJobCore: devices and worker processes.
#include <algorithm>

#include "actors/intra_job/core/intra_job_core.h"

namespace es::actors::intra_job {

using namespace protocol;

void IntraJobCore::handle(const Allocation& event) {
  if (!fleet_.allocate(event)) return;
  give_up_other_types(event);
  const auto& workers = fleet_.workers();
  urgent_ = event.urgent || (urgent_ && std::ranges::any_of(workers, [this](const auto& entry) {
                               return entry.second.phase == Worker::Phase::kKnown &&
                                      !fleet_.allocated(entry.second.device);
                             }));
  suspension_failed_ = false;
  tell_kept("");
  demand_was_met_ = true;
  if (!event.devices.empty()) resumed_ = false;
  if (phase_ == Phase::kIdle && !paused()) {
    show_state(event.devices.empty() ? JobState::kQueued : JobState::kStarting);
  }
  if (scale_request_ && fleet_.allocated_set().contains(*record_.pinned)) answer_scale({});
}

// The cluster scheduler may have granted these devices before it heard that the job is bound to a
// type.
void IntraJobCore::give_up_other_types(const Allocation& event) {
  if (!record_.bound_type) return;
  for (const DeviceId& device : event.devices)
    if (device.type != *record_.bound_type && fleet_.allocated(device)) fleet_.give_up(device);
}

void IntraJobCore::handle(const DemandRefused& event) {
  if (phase_ == Phase::kEnding || paused()) return;
  if (!scale_request_) {
    if (resumed_) return refuse_resume(event.reason);
    const std::string text = "the devices that the job needs cannot be had: " + event.reason;
    if (!demand_was_met_) return fail(text);
    // The devices existed before: a node is away, or has not found a restarted head yet.
    if (!demand_again_at_) log(text + ": waiting for them");
    demand_again_at_ = now_ + kDemandAgainAfter;
    return;
  }
  demand_was_met_ = true;  // the earlier demand, which is restored here, was met
  record_.pinned = pin_before_scale_;
  save();
  answer_scale(refused(event.reason));
}

void IntraJobCore::handle(const WorkerExited& event) {
  Worker* found = fleet_.find(event.incarnation);
  if (found == nullptr) return;
  const Worker worker = *found;
  fleet_.erase(event.incarnation);
  exited_.insert(event.incarnation);
  no_answer_from(event.incarnation);
  if (worker.phase == Worker::Phase::kLeaving || phase_ == Phase::kEnding) return;
  if (event.with_node && worker.phase == Worker::Phase::kStarting) return;
  // Several workers of one lost node count as one loss, which the last of them represents.
  const bool others = std::ranges::any_of(fleet_.workers(), [&](const auto& entry) {
    const Worker& other = entry.second;
    return other.device.node == worker.device.node &&
           (other.phase == Worker::Phase::kKnown || other.phase == Worker::Phase::kWarm);
  });
  is_gone(worker, "exited: " + event.description, !event.with_node || !others);
}

void IntraJobCore::handle(const WorkerLost& event) {
  Worker* worker = fleet_.find(event.incarnation);
  if (worker == nullptr || worker->killed) return;
  evict(*worker, "is lost: " + event.reason);
}

// The device stays in use until the exit is reported.
void IntraJobCore::evict(Worker& worker, const std::string& why) {
  const Worker before = worker;
  kill(worker);
  if (phase_ != Phase::kEnding && before.phase != Worker::Phase::kLeaving) is_gone(before, why);
}

// The job continues without this worker, with a new round if the worker took part. `counts`: the
// loss counts against the limit of losses. REQUIRES: `worker` is a copy.
void IntraJobCore::is_gone(const Worker& worker, const std::string& why, bool counts) {
  const std::string text = "worker " + std::to_string(worker.incarnation.value) + " on " +
                           worker.device.text() + " " + why;
  log(text);
  if (worker.phase == Worker::Phase::kStarting) {
    if (++failed_starts_[worker.device] < kStartAttemptsMax) return;
    fail("no worker process comes up, " + std::to_string(kStartAttemptsMax) +
         " attempts; the last one: " + text);
  } else if (counts && ++losses_without_progress_ >= kLossesWithoutProgressMax) {
    fail(std::to_string(kLossesWithoutProgressMax) +
         " workers were lost without one step of progress; the last one: " + text);
  } else if (worker.phase == Worker::Phase::kKnown) {
    begin_round();
  }
}

// Evicts workers that neither the gateway nor a node reports as lost and that do not answer: they
// hang, or were stopped before their Hello.
void IntraJobCore::evict_silent_workers() {
  std::vector<Incarnation> silent;
  for (const auto& [incarnation, worker] : fleet_.workers()) {
    const bool starts = worker.phase == Worker::Phase::kStarting;
    const bool reports = phase_ == Phase::kPreparing && worker.phase == Worker::Phase::kKnown &&
                         !reports_.contains(incarnation);
    if ((starts && now_ - worker.started > config_.start_timeout) ||
        (reports && now_ - round_since_ > config_.report_timeout)) {
      silent.push_back(incarnation);
    }
  }
  for (const Incarnation incarnation : silent) {
    Worker& worker = *fleet_.find(incarnation);
    if (worker.phase != Worker::Phase::kLeaving) evict(worker, "does not answer");
  }
}

void IntraJobCore::kill(Worker& worker) {
  worker.phase = Worker::Phase::kLeaving;
  worker.placed = false;
  worker.killed = true;
  effects_.push_back(KillWorker{worker.incarnation});
}

// A worker that takes no part in rounds yet has promised no generation.
void IntraJobCore::release(Worker& worker) {
  const bool known = worker.phase == Worker::Phase::kKnown;
  worker.phase = Worker::Phase::kLeaving;
  worker.placed = false;
  worker.leaving_since = now_;
  send(worker, Release{known ? stamp() : Stamp{}});
}

void IntraJobCore::start_worker(const DeviceId& device) {
  const Incarnation incarnation = services_.next_incarnation();
  fleet_.add(incarnation, device).started = now_;
  effects_.push_back(StartWorker{incarnation, device});
}

// Starts processes on devices that the job wants, and gives back devices that it does not need.
void IntraJobCore::reconcile() {
  const Fleet::Staffing staffing = fleet_.staffing(wanted_staff());
  for (const Incarnation incarnation : staffing.dismiss) {
    Worker& worker = *fleet_.find(incarnation);
    if (worker.phase == Worker::Phase::kWarm) {
      release(worker);
    } else {
      kill(worker);
    }
  }
  for (const DeviceId& device : staffing.give_back) {
    // While a demand is refused, the earlier demand is in force. It would bring the device back at
    // once.
    if (demand_again_at_ && fleet_.allocated(device)) continue;
    fleet_.release(device);
    effects_.push_back(DeviceReleased{device});
  }
  const bool somebody = !fleet_.in_phase(Worker::Phase::kKnown).empty();
  for (const DeviceId& device : staffing.start)
    if (!somebody || !rest_.rests(device, now_)) start_worker(device);
}

void IntraJobCore::update_demand() {
  const Wanted wanted = wanted_staff();
  const bool again = demand_again_at_ && now_ >= *demand_again_at_;
  if (wanted == demanded_ && !again) return;
  demand_again_at_.reset();
  demanded_ = wanted;
  if (wanted) {
    effects_.push_back(Demand{*wanted});
  } else {
    effects_.push_back(DemandLifted{});
  }
}

Wanted IntraJobCore::wanted_at(Version version) const {
  if (staged()) return schedule_.devices(schedule_.stage_at(version));
  return record_.pinned;
}

// The devices on which the job wants a warm worker, members included; none when the job is over.
Wanted IntraJobCore::wanted_staff() const {
  if (phase_ == Phase::kEnding || paused() || waits_for_state()) return DeviceSet();
  if (staged()) return schedule_.demand(stage_);
  return record_.pinned;
}

// The version from which the next step begins, as far as the head knows.
Version IntraJobCore::next_version() const {
  std::optional<Version> newest;
  for (const auto& [incarnation, worker] : fleet_.workers()) {
    if (worker.phase == Worker::Phase::kKnown) newest = std::max(newest, worker.version);
  }
  return newest.value_or(restart_point().second);
}

std::vector<KnownWorker> IntraJobCore::known_workers() const {
  std::vector<KnownWorker> known;
  for (const auto& [incarnation, worker] : fleet_.workers()) {
    if (worker.phase != Worker::Phase::kKnown) continue;
    known.push_back({incarnation, worker.device, worker.address, worker.host_id});
  }
  return known;
}

}  // namespace es::actors::intra_job
