#include "actors/head/intra_job/core/fleet_control.h"

#include <algorithm>
#include <utility>

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

void FleetControl::made_progress() {
  losses_without_progress_ = 0;
  program_.made_progress();
  bool is_new = false;
  DevicesWork work;
  for (const Incarnation incarnation : context_.fleet.placed()) {
    Worker& worker = *context_.fleet.find(incarnation);
    if (!std::exchange(worker.worked, true)) is_new = true;
    work.devices.push_back(worker.device);
  }
  if (is_new) context_.emit(std::move(work));
}

bool FleetControl::others_work(const Worker& worker) const {
  return std::ranges::any_of(context_.fleet.workers(), [&](const auto& entry) {
    const Worker& other = entry.second;
    return other.incarnation != worker.incarnation && other.phase == Worker::Phase::kKnown &&
           other.worked;
  });
}

// Error: the job must fail.
Status FleetControl::judge(const Worker& worker, const Loss& loss, const std::string& text) {
  if (loss.cause == EndCause::kItself)
    ES_RETURN_IF_ERROR(
        program_.ended({worker.device.node, worker.started, loss.way, text}, context_.now));
  // A job whose workers are lost in other ways would otherwise begin rounds for ever.
  if (loss.counts && ++losses_without_progress_ >= kLossesWithoutProgressMax)
    return failure(std::to_string(kLossesWithoutProgressMax) +
                   " workers were lost without one step of progress; the last one: " + text);
  return {};
}

LossVerdict FleetControl::lost(const Worker& worker, const Loss& loss) {
  const std::string text = "worker " + std::to_string(worker.incarnation.value) + " on " +
                           worker.device.text() + " " + loss.why;
  context_.warn(text);
  if (worker.phase == Worker::Phase::kStarting) ++start_retries_;
  LossVerdict verdict{.new_round = worker.phase == Worker::Phase::kKnown};
  const bool by_place =
      loss.cause == EndCause::kNode || (loss.cause == EndCause::kItself && !worker.worked);
  if (by_place) {
    context_.fleet.give_up(worker.device);
    context_.emit(DeviceFailed{worker.device, loss.why,
                               loss.cause == EndCause::kNode ? DeviceFailed::Fault::kNode
                                                             : DeviceFailed::Fault::kUnknown});
  }
  // The job itself is not to blame for a node on which nothing can run, nor for a new process that
  // cannot work where others of the same program do.
  if (loss.cause == EndCause::kNode || (by_place && others_work(worker))) return verdict;
  verdict.job = judge(worker, loss, text);
  verdict.may_fail = !program_.empty() || 2 * losses_without_progress_ >= kLossesWithoutProgressMax;
  return verdict;
}

void FleetControl::leave_device(const DeviceId& device, const std::string& why) {
  if (context_.fleet.allocated(device)) context_.fleet.give_up(device);
  context_.emit(DeviceFailed{device, why, DeviceFailed::Fault::kUnsuited});
}

std::vector<Incarnation> FleetControl::leave_node(const DeviceId& device, const std::string& other,
                                                  const std::string& why) {
  context_.emit(DeviceFailed{device, why, DeviceFailed::Fault::kLink, other});
  const auto leaves = [&](const DeviceId& held) {
    return device.node == other ? held == device : held.node == device.node;
  };
  for (const DeviceId& held : context_.fleet.held())
    if (leaves(held) && context_.fleet.allocated(held)) context_.fleet.give_up(held);
  std::vector<Incarnation> known;
  for (const auto& [incarnation, worker] : context_.fleet.workers())
    if (worker.phase == Worker::Phase::kKnown && leaves(worker.device))
      known.push_back(incarnation);
  return known;
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
  for (const DeviceId& device : staffing.start) start_worker(device);
}

std::optional<Instant> FleetControl::next_limit() const {
  std::optional<Instant> first;
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
