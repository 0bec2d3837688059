// ClusterScheduler: demands of jobs, the times at which the policy is asked, and its decisions.
#include <caf/all.hpp>

#include <cmath>

#include "actors/base/log/log.h"
#include "actors/base/protocol/core/durations.h"
#include "actors/base/protocol/wire/job_cluster_codec.h"
#include "actors/head/cluster_scheduler/shell/cluster_scheduler_actor.h"

namespace es::actors {
namespace {

// Shortest time between two decisions that the policy itself asked for.
constexpr double kDecisionsApartSeconds = 0.1;

void log_message(const JobId& job, const protocol::Allocation& allocation) {
  if (!log::enabled(log::Level::kInfo)) return;
  std::string devices;
  for (const DeviceId& device : allocation.devices) devices += " " + device.text();
  log::info(
      (devices.empty() ? std::string("the job may use no device") : "the job may use" + devices) +
          (allocation.urgent ? ", at once" : ""),
      {.job = job});
}

void log_message(const JobId& job, const protocol::DemandRefused& refused) {
  log::debug("the demand of the job is refused: " + refused.reason, {.job = job});
}

}  // namespace

cluster::JobAdmitted ClusterSchedulerState::admitted_event(const JobId& id, const JobSpec& spec,
                                                           const JobRecord& record,
                                                           bool restored) const {
  // The journal has the date of the submission, and the core has a clock that began at another
  // moment, so the time is converted by the age of the job. The age is not negative even if the
  // date of the machine was set back.
  const double age_seconds =
      (static_cast<double>(options_.unix_ms()) - static_cast<double>(record.submitted_unix_ms)) /
      1e3;
  return {.job = id,
          .resources = spec.resources,
          .level = spec.level,
          .max_p = spec.max_p,
          .restored = restored,
          .submit_s = now_s() - std::max(0.0, age_seconds),
          .start_seconds = in_seconds(options_.start_pause),
          .rescale_seconds = in_seconds(options_.rescale_pause),
          .suspend_seconds = in_seconds(options_.suspend_pause)};
}

void ClusterSchedulerState::on_demand(const JobId& job, wire::Demand::Reader r) {
  std::visit([&](auto message) { on_job_message(job, std::move(message)); }, protocol::value_of(r));
}

void ClusterSchedulerState::on_job_message(const JobId& job, cluster::JobMessage message) {
  // A job that was forgotten may still have messages in this mailbox.
  if (jobs_.contains(job)) take(cluster::FromJob{job, std::move(message)});
}

// Each change of devices ends with this message, and a decision costs time.
void ClusterSchedulerState::on_devices_work(const JobId& job, protocol::DevicesWork message) {
  if (core_->awaits_proof()) on_job_message(job, std::move(message));
}

// The decision follows after decision_delay, so that one decision serves all events until then.
void ClusterSchedulerState::take(const cluster::Event& event) {
  perform(core_->take(event, now_s()));
  decide_at(now_s() + in_seconds(options_.decision_delay));
}

void ClusterSchedulerState::take_now(const cluster::Event& event) {
  perform(core_->take(event, now_s()));
  // The planned time is passed, so the decision is made now, and the one that was planned is void.
  on_decide(decide_due_s_);
}

void ClusterSchedulerState::decide_at(double due_s) {
  // Only the earliest planned decision counts. The timers of later ones still fire, and on_decide()
  // ignores them.
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
  const double begin_s = options_.stopwatch_s ? options_.stopwatch_s() : 0;
  const std::vector<cluster::Effect> effects = core_->decide(now_s());
  if (options_.stopwatch_s) decision_times_.add(options_.stopwatch_s() - begin_s);
  perform(effects);
  save_usage();
  forget_ended_claims();
  if (core_->decide_again_s() < scheduler::kNever.count())
    decide_at(std::max(core_->decide_again_s(), now_s() + kDecisionsApartSeconds));
}

// Usage that cannot be written now is written with the next change.
void ClusterSchedulerState::save_usage() {
  const auto usage = core_->take_usage();
  if (!usage) return;
  std::vector<store::UsageRecord> records;
  for (const auto& [queue, device_seconds] : *usage)
    records.push_back({queue, device_seconds, options_.unix_ms()});
  if (const Status saved = store_->usage().save(records); !saved.ok())
    on_store_failed(saved.error().message);
}

// Restored before any job, so that the first decision knows it.
Status ClusterSchedulerState::restore_usage() {
  const auto usage = store_->usage().load_all();
  if (!usage) return usage.error();
  for (const store::UsageRecord& record : *usage) {
    const double age_ms =
        static_cast<double>(options_.unix_ms()) - static_cast<double>(record.unix_ms);
    take(cluster::UsageRestored{record.queue, record.device_seconds, age_ms / 1e3});
  }
  return {};
}

void ClusterSchedulerState::perform(const std::vector<cluster::Effect>& effects) {
  for (const cluster::Effect& effect : effects) {
    const auto job = jobs_.find(effect.job);
    if (job == jobs_.end()) continue;  // the job has ended and is forgotten
    const auto send = [&](const auto& message) {
      log_message(effect.job, message);
      self_->send(job->second.actor, protocol::message_of(message));
    };
    std::visit(send, effect.message);
  }
}

}  // namespace es::actors
