#include "actors/intra_job/core/fleet_control.h"

#include <algorithm>

namespace es::actors::intra_job {

void FleetControl::kill(Worker& worker) {
  context_.fleet.leave(worker);
  // From now on none of its messages counts (JobCore::counts).
  worker.killed = true;
  context_.emit(KillWorker{worker.incarnation});
}

void FleetControl::kill_unknown(Incarnation incarnation) {
  if (!exited_.contains(incarnation)) context_.emit(KillWorker{incarnation});
}

void FleetControl::release(Worker& worker) {
  const bool known = worker.phase == Worker::Phase::kKnown;
  context_.fleet.leave(worker);
  worker.leaving_since = context_.now;
  context_.send(worker, protocol::Release{known ? context_.stamp() : protocol::Stamp{}});
}

void FleetControl::end_all() {
  // A process that has not said hello has no link on which a Release could reach it, so it is
  // killed.
  for (auto& [incarnation, worker] : context_.fleet.workers()) {
    if (worker.phase == Worker::Phase::kStarting) {
      kill(worker);
    } else if (worker.phase != Worker::Phase::kLeaving) {
      release(worker);
    }
  }
}

void FleetControl::end_known() {
  for (const Incarnation incarnation : context_.fleet.in_phase(Worker::Phase::kKnown))
    release(*context_.fleet.find(incarnation));
}

void FleetControl::kill_late_leavers() {
  for (auto& [incarnation, worker] : context_.fleet.workers()) {
    const bool late = worker.phase == Worker::Phase::kLeaving && !worker.killed &&
                      context_.now - worker.leaving_since > context_.config.exit_timeout;
    if (late) kill(worker);
  }
}

std::optional<Worker> FleetControl::reaped(Incarnation incarnation) {
  const Worker* found = context_.fleet.find(incarnation);
  if (found == nullptr) return std::nullopt;
  const Worker worker = *found;
  context_.fleet.erase(incarnation);
  exited_.insert(incarnation);
  return worker;
}

bool FleetControl::has_others_on_node_of(const Worker& worker) const {
  return std::ranges::any_of(context_.fleet.workers(), [&](const auto& entry) {
    const Worker& other = entry.second;
    return other.device.node == worker.device.node &&
           (other.phase == Worker::Phase::kKnown || other.phase == Worker::Phase::kWarm);
  });
}

LossVerdict FleetControl::lost(const Worker& worker, const std::string& why, bool counts) {
  const std::string text = "worker " + std::to_string(worker.incarnation.value) + " on " +
                           worker.device.text() + " " + why;
  context_.warn(text);
  // Such a process was not a member, so no round follows. Its device gets a new process in
  // reconcile().
  if (worker.phase == Worker::Phase::kStarting) {
    if (++failed_starts_[worker.device] < kStartAttemptsMax) {
      ++start_retries_;
      return {};
    }
    return {.failure = "no worker process has become ready in " +
                       std::to_string(kStartAttemptsMax) + " attempts; the last one: " + text};
  }
  // A job whose step kills its workers would otherwise begin rounds for ever.
  if (counts && ++losses_without_progress_ >= kLossesWithoutProgressMax)
    return {.failure = std::to_string(kLossesWithoutProgressMax) +
                       " workers were lost without one step of progress; the last one: " + text};
  return {.new_round = worker.phase == Worker::Phase::kKnown};
}

void FleetControl::start_worker(const DeviceId& device) {
  const Incarnation incarnation = context_.services.next_incarnation();
  context_.fleet.add(incarnation, device).started = context_.now;
  context_.emit(StartWorker{incarnation, device});
}

void FleetControl::reconcile(const Wanted& wanted, bool demand_is_refused) {
  Fleet& fleet = context_.fleet;
  const Fleet::Staffing staffing = fleet.staffing(wanted);
  for (const Incarnation incarnation : staffing.dismiss) {
    Worker& worker = *fleet.find(incarnation);
    if (worker.phase == Worker::Phase::kWarm) {
      release(worker);
    } else {
      kill(worker);
    }
  }
  for (const DeviceId& device : staffing.give_back) {
    // The scheduler still has the earlier demand and would grant the device again at once.
    if (demand_is_refused && fleet.allocated(device)) continue;
    fleet.release(device);
    context_.emit(DeviceReleased{device});
  }
  // Without a known worker no device rests, because the job would only wait.
  const bool has_known = !fleet.in_phase(Worker::Phase::kKnown).empty();
  for (const DeviceId& device : staffing.start)
    if (!has_known || !backoff_.waits(device, context_.now)) start_worker(device);
}

std::optional<Instant> FleetControl::next_limit() const {
  std::optional<Instant> first = backoff_.first_end(context_.now);
  const auto limit = [&](Instant at) { first = std::min(first.value_or(at), at); };
  for (const auto& [incarnation, worker] : context_.fleet.workers()) {
    if (worker.phase == Worker::Phase::kLeaving && !worker.killed)
      limit(worker.leaving_since + context_.config.exit_timeout);
    if (worker.phase == Worker::Phase::kStarting)
      limit(worker.started + context_.config.start_timeout);
  }
  return first;
}

}  // namespace es::actors::intra_job
