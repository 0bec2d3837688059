// The speeds of the job's devices: the times that workers measure, the devices that are slow, and
// the decision to move ESTs.
#include <caf/all.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "actors/intra_job/shell/intra_job_actor.h"
#include "actors/protocol/core/durations.h"
#include "scheduler/plans/placement.h"
#include "scheduler/plans/rebalance.h"

namespace es::actors {
namespace {

// Between two changes at least this multiple of the pause and at least this time must pass, so that
// the changes cost at most a twentieth of the time.
constexpr int kPausesApart = 20;
constexpr Instant kRebalanceApart = std::chrono::seconds(5);

std::string decimal(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

// A value that is not finite would stay in sums and plans for ever, so such a report is refused.
bool is_measurement(wire::WorkerStats::Reader r) {
  const auto fits = [](double value) { return std::isfinite(value) && value >= 0; };
  for (const double seconds : r.getEstSeconds())
    if (!fits(seconds)) return false;
  return fits(r.getLocalStepSeconds()) && fits(r.getPeakRssMib()) &&
         fits(r.getContextSwitchSeconds()) && fits(r.getDataWaitSeconds());
}

}  // namespace

void IntraJobState::on_worker_stats(wire::WorkerStats::Reader r, Incarnation incarnation) {
  if (!is_measurement(r))
    return log("worker " + std::to_string(incarnation.value) +
               ": its times are not taken: allowed are finite numbers from 0");
  pids_[incarnation] = r.getPid();
  peak_rss_mib_ = std::max(peak_rss_mib_, r.getPeakRssMib());
  for (const double seconds : r.getEstSeconds()) compute_seconds_ += seconds;
  switch_seconds_ += r.getContextSwitchSeconds();
  wait_seconds_ += r.getDataWaitSeconds();
  const auto ests = r.getEstSeconds();
  std::vector<double>& est_seconds = est_seconds_[incarnation];
  est_seconds.clear();
  for (const double seconds : ests) est_seconds.push_back(seconds);
  const auto at = core_->fleet().workers().find(incarnation);
  if (at == core_->fleet().workers().end() || ests.size() == 0 || !(r.getLocalStepSeconds() > 0))
    return;
  const DeviceId device = at->second.device;
  const auto report = stragglers_.add({.device = device,
                                       .worker = incarnation,
                                       .local_steps = std::uint64_t{ests.size()} * r.getSteps(),
                                       .seconds = r.getLocalStepSeconds()},
                                      member_devices());
  if (!report) return;
  if (report->slowness < intra_job::StragglerWatch::kUsual)
    measured(device.type, 1.0 / report->seconds);
  if (report->change == intra_job::StragglerWatch::Change::kNamed)
    log("device " + device.text() + " is slow: " + decimal(report->seconds * 1e3, 1) +
        " ms for a local step, " + decimal(stragglers_.factor(device), 1) +
        " times what others of its type take or what is usual for it");
  if (report->change == intra_job::StragglerWatch::Change::kCleared)
    log("device " + device.text() + " is as fast as usual again");
  consider_fall_back();
  release_unused();
  consider_rebalance();
}

void IntraJobState::measured(const DeviceType& type, double steps_per_second) {
  const auto known = capabilities_.find(type);
  const auto changed = capability_watch_.add(
      type, steps_per_second, known == capabilities_.end() ? steps_per_second : known->second,
      measured_types_.contains(type));
  if (!changed) return;
  capabilities_[type] = *changed;
  measured_types_.insert(type);
  if (grant_trial_.capability_changed(type, *changed)) keep_refusals();
  released_from_.clear();
  self_->send(peers_.companion,
              Msg<wire::CapabilityReport>::build({}, [&](wire::CapabilityReport::Builder b) {
                auto report = b.initReports(1)[0];
                report.setDeviceType(type.name);
                report.setStepsPerSecond(*changed);
                report.setMeasured(true);
              }));
  query_plans();
}

// At D0 the bits depend on which device has which ranks, so the speeds of single devices are
// ignored.
double IntraJobState::capability_of(const DeviceId& device) const {
  const auto at = capabilities_.find(device.type);
  const double of_type = at == capabilities_.end() ? 1.0 : at->second;
  if (options_.spec.level == DeterminismLevel::kD0) return of_type;
  return of_type / stragglers_.factor(device);
}

std::vector<RankRange> IntraJobState::assign_ranks(std::uint32_t max_p,
                                                   const std::vector<DeviceId>& devices) const {
  std::vector<double> capabilities;
  for (const DeviceId& device : devices) capabilities.push_back(capability_of(device));
  return scheduler::assign_ranks(capabilities, max_p);
}

// Ordered by the incarnations of the workers, as assign_ranks() requires.
std::vector<DeviceId> IntraJobState::member_devices() const {
  std::vector<DeviceId> devices;
  for (const Incarnation incarnation : core_->fleet().placed())
    devices.push_back(core_->fleet().workers().at(incarnation).device);
  return devices;
}

void IntraJobState::consider_rebalance() {
  if (core_->phase() != intra_job::Phase::kNormal) return;
  if (stalled_ || options_.spec.level == DeterminismLevel::kD0 || now() < next_rebalance_) return;
  const std::vector<DeviceId> devices = member_devices();
  std::vector<double> capabilities;
  std::vector<RankRange> current;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    // Assumed and measured capabilities cannot be compared.
    if (!stragglers_.seconds(devices[i])) return;
    capabilities.push_back(capability_of(devices[i]));
    const Incarnation incarnation = core_->fleet().placed()[i];
    for (const protocol::Member& member : core_->members())
      if (member.incarnation == incarnation) current.push_back(member.ranks);
  }
  const Instant pause = pause_of_a_change();
  const auto change = scheduler::rebalance({.capabilities = capabilities,
                                            .current = current,
                                            .max_p = options_.spec.max_p,
                                            .pause = scheduler::Seconds(in_seconds(pause)),
                                            .steps_left = steps_left()});
  if (!change) return;
  log("moves ESTs: a step of " + decimal(change->seconds_now, 3) + " s would take " +
      decimal(change->seconds_then, 3) + " s");
  next_rebalance_ = now() + std::max<Instant>(kPausesApart * pause, kRebalanceApart);
  perform(core_->on(intra_job::Event(intra_job::RebalanceCommand{}), now()));
}

// Measures the time from the decision to change until the members step again. This is the cost of a
// change, or slightly more.
void IntraJobState::measure_pause(JobState state) {
  if (state == JobState::kRescaling) rescaling_since_ = now();
  // The job waits for devices, which is not part of the cost of a change.
  if (state == JobState::kQueued || state == JobState::kPaused) rescaling_since_.reset();
  if (state != JobState::kRunning || !rescaling_since_) return;
  last_pause_ = now() - *std::exchange(rescaling_since_, std::nullopt);
}

Instant IntraJobState::pause_of_a_change() const {
  return last_pause_.value_or(options_.pause_assumed);
}

}  // namespace es::actors
