// ClusterScheduler: demands of jobs, the times at which the policy is asked, and its decisions.
#include <caf/all.hpp>

#include <cmath>

#include "actors/cluster_scheduler/shell/cluster_scheduler_actor.h"
#include "actors/log/log.h"
#include "actors/protocol/core/durations.h"
#include "actors/protocol/wire/wire_devices.h"

namespace es::actors {
namespace {

// Shortest time between two decisions that the policy itself asked for, in seconds.
constexpr double kAgainMin = 0.1;

cluster::JobProgress progress_from(wire::JobProgress::Reader r) {
  cluster::JobProgress progress{.total_steps = r.getTotalSteps(),
                                .remaining_steps = r.getRemainingSteps(),
                                .steps_per_s = r.getStepsPerSecond(),
                                .rescale_s = r.getRescaleSeconds(),
                                .started = r.getStarted(),
                                .adopted = r.getAdopted(),
                                .capabilities = {}};
  for (const auto c : r.getCapabilities())
    progress.capabilities[{c.getDeviceType().cStr()}] = c.getStepsPerSecond();
  return progress;
}

std::vector<scheduler::Refusal> refusals_from(wire::Demand::Reader r) {
  std::vector<scheduler::Refusal> refusals;
  for (const auto refusal : r.getRefusals()) {
    refusals.push_back({device_set_from(refusal.getHeld()), {}, {}});
    for (const auto type : refusal.getTypes()) refusals.back().types.push_back({type.cStr()});
  }
  return refusals;
}

void log_allocation(const cluster::Allocation& allocation) {
  if (!log::enabled(log::Level::kInfo)) return;
  std::string devices;
  for (const DeviceId& device : allocation.devices) devices += " " + device.text();
  log::info(
      (devices.empty() ? std::string("the job may use no device") : "the job may use" + devices) +
          (allocation.urgent ? ", at once" : ""),
      {.job = allocation.job});
}

}  // namespace

cluster::JobAdmitted ClusterSchedulerState::admitted_event(const JobId& id, const JobSpec& spec,
                                                           const JobRecord& record,
                                                           bool restored) const {
  const double age_s =
      (static_cast<double>(options_.unix_ms()) - static_cast<double>(record.submitted_unix_ms)) /
      1e3;
  const double submit_s = now_s() - std::max(0.0, age_s);
  const double deadline_s = spec.resources.deadline_seconds;
  return {.job = id,
          .min_devices = spec.resources.min_devices,
          .max_devices = spec.resources.max_devices,
          .device_types = spec.resources.device_types,
          .level = spec.level,
          .max_p = spec.max_p,
          .restored = restored,
          .submit_s = submit_s,
          .tenant = spec.resources.tenant,
          .priority = spec.resources.priority,
          .deadline_s = deadline_s > 0 ? submit_s + deadline_s : scheduler::kNever.count(),
          .start_s = options_.start_s,
          .rescale_s = options_.rescale_s};
}

void ClusterSchedulerState::on_demand(const JobId& job, wire::Demand::Reader r) {
  if (!jobs_.contains(job)) return;
  if (r.isRefusals()) return take(cluster::JobRefuses{job, refusals_from(r)});
  if (r.isBoundType()) return take(cluster::JobBound{job, {r.getBoundType().cStr()}});
  cluster::JobDemand demand{.job = job, .exact = {}, .proposals = {}, .sequence = r.getSequence()};
  if (r.isExact()) {
    demand.exact = device_set_from(r.getExact());
  } else {
    for (const auto p : r.getProposals())
      demand.proposals.push_back({{p.getDeviceType().cStr()}, p.getCount(), p.getSpeedup()});
  }
  if (r.hasProgress()) demand.progress = progress_from(r.getProgress());
  take(demand);
}

void ClusterSchedulerState::on_released(const JobId& job, wire::DeviceReleased::Reader r) {
  if (jobs_.contains(job)) take(cluster::DeviceReleased{job, device_from(r.getDevice())});
}

void ClusterSchedulerState::take(const cluster::Event& event) {
  perform(core_->take(event, now_s()));
  decide_at(now_s() + in_seconds(options_.gather));
}

void ClusterSchedulerState::take_now(const cluster::Event& event) {
  perform(core_->take(event, now_s()));
  on_decide(decide_due_s_);
}

void ClusterSchedulerState::decide_at(double due_s) {
  if (due_s >= decide_due_s_) return;
  decide_due_s_ = due_s;
  self_->delayed_send(self_, std::chrono::nanoseconds(std::llround((due_s - now_s()) * 1e9)),
                      DecideAtom::value, due_s);
}

// `due_s` is the time for which this decision was planned. If an earlier one has replaced it,
// nothing happens.
void ClusterSchedulerState::on_decide(double due_s) {
  if (due_s != decide_due_s_) return;
  decide_due_s_ = scheduler::kNever.count();
  perform(core_->decide(now_s()));
  if (core_->decide_again_s() < scheduler::kNever.count())
    decide_at(std::max(core_->decide_again_s(), now_s() + kAgainMin));
}

void ClusterSchedulerState::perform(const std::vector<cluster::Effect>& effects) {
  for (const cluster::Effect& effect : effects)
    std::visit([this](const auto& e) { perform_effect(e); }, effect);
}

void ClusterSchedulerState::perform_effect(const cluster::Allocation& effect) {
  const auto job = jobs_.find(effect.job);
  if (job == jobs_.end()) return;  // the job has ended and is forgotten
  log_allocation(effect);
  self_->send(job->second.actor, Msg<wire::Allocation>::build({}, [&](wire::Allocation::Builder b) {
                b.setSequence(effect.sequence);
                b.setReleasesSeen(effect.releases_seen);
                auto devices = b.initDevices(effect.devices.size());
                for (std::size_t i = 0; i < effect.devices.size(); ++i)
                  put(devices[i], effect.devices[i]);
                b.setUrgent(effect.urgent);
              }));
}

void ClusterSchedulerState::perform_effect(const cluster::DemandRefused& effect) {
  log::debug("the demand of the job is refused: " + effect.reason, {.job = effect.job});
  self_->send(jobs_.at(effect.job).actor,
              Msg<wire::DemandRefused>::build(
                  {}, [&](wire::DemandRefused::Builder b) { b.setReason(effect.reason); }));
}

}  // namespace es::actors
