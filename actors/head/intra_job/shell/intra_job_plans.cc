// The intra-job scheduler: performs what its planner (core/job_planner.h) decides, and gives it
// what the companion answers and what workers measure.
#include <caf/all.hpp>

#include <algorithm>
#include <cmath>

#include "actors/head/intra_job/shell/intra_job_actor.h"

namespace es::actors {
namespace {

// A value that is not finite would stay in sums and plans for ever, so such a report is refused.
bool is_measurement(wire::WorkerStats::Reader r) {
  const auto fits = [](double value) { return std::isfinite(value) && value >= 0; };
  for (const double seconds : r.getEstSeconds())
    if (!fits(seconds)) return false;
  return fits(r.getLocalStepSeconds()) && fits(r.getPeakRssMib()) &&
         fits(r.getContextSwitchSeconds()) && fits(r.getDataWaitSeconds());
}

}  // namespace

intra_job::PlannerView IntraJobState::planner_view() const {
  return intra_job::planner_view_of(*core_, stalled_.has_value(), now());
}

void IntraJobState::act(const intra_job::PlannerEffects& effects) {
  for (const intra_job::PlannerEffect& effect : effects)
    std::visit([this](const auto& e) { act_on(e); }, effect);
}

void IntraJobState::act_on(const intra_job::LogLine& effect) {
  log(effect.text, effect.is_warning ? log::Level::kWarning : log::Level::kInfo);
}

void IntraJobState::act_on(const protocol::PlanQuery& effect) {
  self_->send(peers_.companion, protocol::message_of(effect));
}

void IntraJobState::act_on(const protocol::CapabilityReport& effect) {
  self_->send(peers_.companion, protocol::message_of(effect));
}

void IntraJobState::act_on(const protocol::Demand& effect) {
  tell_cluster(effect);
}

void IntraJobState::act_on(const intra_job::RefusalsChanged&) {
  // Refusals do not go through the core, so they are saved here and not in the list of held
  // effects.
  const Status saved = save_refusals();
  if (saved.ok()) return;
  refusals_wait_ = true;
  stall(saved.error());
}

void IntraJobState::act_on(const intra_job::ConsiderChanges&) {
  // Each call needs a view of its own, because the one before may have changed the job.
  act(planner_->fall_back(planner_view()));
  act(planner_->release_unused(planner_view()));
  act(planner_->rebalance(planner_view()));
}

void IntraJobState::act_on(const intra_job::GiveBackCommand& effect) {
  perform(core_->on(intra_job::Event(effect), now()));
}

void IntraJobState::act_on(const intra_job::RebalanceCommand& effect) {
  perform(core_->on(intra_job::Event(effect), now()));
}

Status IntraJobState::save_refusals() {
  options_.record.refusals = planner_->refusals();
  ES_RETURN_IF_ERROR(peers_.store->save(options_.record));
  refusals_wait_ = false;
  tell_refusals();
  return {};
}

void IntraJobState::tell_refusals() {
  tell_cluster(protocol::JobRefusals{planner_->refusals()});
}

void IntraJobState::on_plans(wire::PlanAnswer::Reader r) {
  act(planner_->on(protocol::value_of(r), planner_view()));
}

void IntraJobState::on_worker_stats(wire::WorkerStats::Reader r, Incarnation incarnation) {
  if (!is_measurement(r))
    return log("worker " + std::to_string(incarnation.value) +
               ": its times are ignored: allowed are finite numbers from 0");
  pids_[incarnation] = r.getPid();
  peak_rss_mib_ = std::max(peak_rss_mib_, r.getPeakRssMib());
  for (const double seconds : r.getEstSeconds()) compute_seconds_ += seconds;
  switch_seconds_ += r.getContextSwitchSeconds();
  wait_seconds_ += r.getDataWaitSeconds();
  message_bytes_ += r.getMessageBytes();
  shared_memory_bytes_ += r.getSharedMemoryBytes();
  channel_bytes_ += r.getChannelBytes();
  const auto ests = r.getEstSeconds();
  std::vector<double>& est_seconds = est_seconds_[incarnation];
  est_seconds.clear();
  for (const double seconds : ests) est_seconds.push_back(seconds);
  const auto at = core_->fleet().workers().find(incarnation);
  // A report without times, or of a worker that is gone, says nothing about a device.
  if (at == core_->fleet().workers().end() || ests.size() == 0 || !(r.getLocalStepSeconds() > 0))
    return;
  act(planner_->measured({.device = at->second.device,
                          .worker = incarnation,
                          .local_steps = std::uint64_t{ests.size()} * r.getSteps(),
                          .seconds = r.getLocalStepSeconds()},
                         planner_view()));
}

}  // namespace es::actors
