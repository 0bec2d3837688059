// ClusterCore: the view that the policy sees, kept up to date job by job.
#include <algorithm>
#include <utility>

#include "actors/head/cluster_scheduler/core/cluster_core.h"
#include "actors/head/cluster_scheduler/core/job_bounds.h"
#include "scheduler/model/device_sets.h"
#include "scheduler/policy/common/speed.h"

namespace es::actors {
namespace {

using scheduler::JobView;
using scheduler::Seconds;

// Returns the speed that the waste model predicts for the devices that the job holds. A type
// without a known speed counts as one that computes nothing.
double expected_speed(const JobView& view) {
  std::vector<std::uint32_t> counts;
  std::vector<double> capabilities;
  for (const DeviceCount& c : view.held.counts) {
    const auto known = view.capabilities.find(c.type);
    counts.push_back(c.count);
    capabilities.push_back(known == view.capabilities.end() ? 0 : known->second);
  }
  if (counts.empty()) return 0;
  return scheduler::mixed_speed(view.max_p, counts, capabilities, view.sync);
}

}  // namespace

void ClusterCore::advance(double now_s) {
  // This integral gives the mean number of jobs that share the cluster with a job (policy.h).
  view_.job_seconds += std::max(0.0, now_s - now_s_) * static_cast<double>(jobs_.size());
  now_s_ = std::max(now_s_, now_s);
}

void ClusterCore::touch(Job& job) {
  if (!std::exchange(job.listed, true)) touched_.push_back(submit_numbers_.at(job.admitted.job));
}

// Prepares the view for one decision. Policies do not see the devices that claims have or wait for:
// a plan that counts on such a device would never be carried out and would be made again at every
// event.
void ClusterCore::refresh_view() {
  std::vector<DeviceType> types = types_of(pool_.existing_devices());
  const bool all = types != all_types_;  // jobs without device_types may use other types now
  if (all) {
    all_types_ = std::move(types);
    for (auto& [number, job] : jobs_) touch(job);
  }
  touch_limited_jobs();
  view_.free = pool_.free_devices();
  view_.returning = scheduler::beyond(pool_.returning_devices(), reserved_returning());
  DeviceSet claimed;
  for (const auto& [name, claim] : claims_)
    if (takes_devices(claim)) claimed.add(claim.type, claim.count);
  view_.total = scheduler::beyond(pool_.existing_devices(), claimed);
  view_.now = Seconds(now_s_);
  std::vector<std::size_t> changed = std::exchange(left_slots_, {});
  for (const std::uint64_t number : touched_) {
    const auto at = jobs_.find(number);
    if (at == jobs_.end()) continue;
    refresh(at->second);
    at->second.listed = false;
    changed.push_back(at->second.slot);
  }
  touched_.clear();
  std::sort(changed.begin(), changed.end());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  view_.changed = std::move(changed);
}

void ClusterCore::refresh(Job& job) {
  // A job without a demand has not said what it can use. Its slot stays empty, so no policy gives
  // it devices.
  if (!job.demand) return;
  const cluster::JobAdmitted& admitted = job.admitted;
  JobView& view = view_.jobs[job.slot];
  if (view.id.empty()) {
    view = JobView{};
    view.id = admitted.job;
    view.number = submit_numbers_.at(admitted.job);
    view.submitted = Seconds(*admitted.submit_s);
    view.queue = scheduler::queue_of_job(limits_.queues, admitted.resources.queue,
                                         admitted.resources.tenant);
    view.priority = admitted.resources.priority;
    view.deadline = Seconds(deadline_s(admitted));
    view.max_devices = max_devices(admitted);
    view.min_devices = std::min(std::max(admitted.resources.min_devices, 1U), view.max_devices);
    if (shares_) view.share_level = shares_->level(view.queue);
    view.mix_types = mixes_types(admitted);
    view.may_suspend = admitted.resources.suspendable;
    view.max_p = admitted.max_p;
    view.start_pause = Seconds(admitted.start_seconds);
    view.rescale_pause = Seconds(admitted.rescale_seconds);
    view.suspend_pause = Seconds(admitted.suspend_seconds);
    view.work.as_of = Seconds(now_s_);
    view.job_seconds_at_submit = view_.job_seconds;
    refresh_progress(job, view);
  }
  note_sync(job);
  scheduler::advance_work(view, Seconds(now_s_));
  view.types = usable_types(admitted, all_types_);
  view.max_devices = max_devices(admitted);
  const std::vector<DeviceType>& named = admitted.resources.device_types;
  if (!named.empty()) view.gang_type = named.front();
  DeviceSet held = pool_.held_devices(admitted.job);
  if (view.held != held) view.changed = Seconds(now_s_);
  view.held = std::move(held);
  view.pinned = job.demand->exact;
  const auto& progress = job.demand->progress;
  view.settled =
      !job.changed && job.demand->sequence == job.sequence && (!progress || progress->adopted);
  limit_holding(view);
  view.proposals.clear();
  // A job with an Allocation that is not sent yet would be judged by proposals for its earlier
  // devices.
  if (!view.pinned && !job.changed) view.proposals = job.demand->proposals;
  limit_by_price(job, view);
  // A refusal of a set below the job's minimum (its user's choice) is hidden, because the job must
  // still be able to start.
  view.refusals.clear();
  for (const scheduler::Refusal& refusal : job.refusals)
    if (refusal.held.total() >= view.min_devices) view.refusals.push_back(refusal);
  limit_by_faults(job, view);
  expect_sync(job, view);
}

// A grant adds at most max_p devices to what the job owns, so it is allowed only if the job owns at
// most max_p. Policies give devices to a job that holds nothing even if it is not settled. Such a
// job is shown as one that wants none.
void ClusterCore::limit_holding(JobView& view) const {
  const std::uint32_t returning = pool_.returning_count(view.id);
  if (returning + view.held.total() <= view.max_p) return;
  if (returning > 0) view.settled = false;
  if (view.held.empty() && !view.pinned) view.pinned = DeviceSet();
}

// The job has just reported its progress.
void ClusterCore::refresh_progress(Job& job, JobView& view) {
  if (view.id.empty() || !job.demand->progress) return;
  const protocol::JobProgress& progress = *job.demand->progress;
  scheduler::advance_work(view, Seconds(now_s_));
  view.capabilities.clear();
  for (const protocol::Capability& c : progress.capabilities)
    view.capabilities[c.type] = c.steps_per_second;
  view.started = progress.started;
  view.sync = scheduler::SyncCurve(progress.sync);
  if (const double seconds = scheduler::seconds_per_device(view.sync); seconds > 0)
    learn_sync(view, seconds);
  if (progress.rescale_seconds > 0) view.rescale_pause = Seconds(progress.rescale_seconds);
  if (progress.suspend_seconds > 0) view.suspend_pause = Seconds(progress.suspend_seconds);
  view.budget_left = progress.budget_left;
  view.work.total_steps = progress.total_steps;
  view.work.remaining_steps = progress.remaining_steps;
  view.work.steps_per_s = progress.steps_per_second;
  if (progress.steps_per_second > 0) view.work.paused_until = Seconds(now_s_);
}

// Predicts the effect of a change until the job reports: the job stands still for the usual time of
// a change, and then has the speed that the model predicts.
void ClusterCore::expect_change(Job& job) {
  JobView& view = view_.jobs[job.slot];
  if (view.id.empty()) return;
  note_sync(job);
  scheduler::advance_work(view, Seconds(now_s_));
  if (view.started) ++view.work.changes;
  const bool restarts = view.held.empty();
  view.held = pool_.held_devices(job.admitted.job);
  view.changed = Seconds(now_s_);
  view.work.steps_per_s = expected_speed(view);
  const Seconds pause = !view.started ? view.start_pause
                        : restarts    ? view.suspend_pause
                                      : view.rescale_pause;
  view.work.paused_until = Seconds(now_s_) + pause;
}

// The number of slots doubles when it grows, because a policy may have to look at all slots again.
void ClusterCore::take_slot(Job& job) {
  if (free_slots_.empty()) {
    const std::size_t before = view_.jobs.size();
    view_.jobs.resize(std::max<std::size_t>(16, 2 * before));
    for (std::size_t slot = view_.jobs.size(); slot > before; --slot)
      // The smallest slot is at the end of the list and is used first.
      free_slots_.push_back(slot - 1);
  }
  job.slot = free_slots_.back();
  free_slots_.pop_back();
}

void ClusterCore::release_slot(const Job& job) {
  view_.jobs[job.slot] = {};
  free_slots_.push_back(job.slot);
  // The policy must learn that this slot is empty, even if another job takes it before the next
  // decision.
  left_slots_.push_back(job.slot);
}

}  // namespace es::actors
