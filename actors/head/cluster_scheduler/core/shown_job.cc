#include "actors/head/cluster_scheduler/core/shown_job.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "actors/head/cluster_scheduler/core/job_bounds.h"
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

JobView first_view(const cluster::JobAdmitted& admitted, std::uint64_t number,
                   const std::vector<scheduler::Queue>& queues, double now_s) {
  JobView view;
  view.id = admitted.job;
  view.number = number;
  view.submitted = Seconds(*admitted.submit_s);
  view.queue = scheduler::queue_of_job(queues, admitted.resources.queue, admitted.resources.tenant);
  view.priority = admitted.resources.priority;
  view.deadline = Seconds(deadline_s(admitted));
  view.max_devices = max_devices(admitted);
  view.min_devices = std::min(std::max(admitted.resources.min_devices, 1U), view.max_devices);
  view.mix_types = mixes_types(admitted);
  view.may_suspend = admitted.resources.suspendable;
  view.max_p = admitted.max_p;
  view.start_pause = Seconds(admitted.start_seconds);
  view.rescale_pause = Seconds(admitted.rescale_seconds);
  view.suspend_pause = Seconds(admitted.suspend_seconds);
  view.work.as_of = Seconds(now_s);
  return view;
}

void report(JobView& view, const protocol::JobProgress& progress, double now_s) {
  scheduler::advance_work(view, Seconds(now_s));
  view.capabilities.clear();
  for (const protocol::Capability& c : progress.capabilities)
    view.capabilities[c.type] = c.steps_per_second;
  view.started = progress.started;
  view.sync = scheduler::SyncCurve(progress.sync);
  if (progress.rescale_seconds > 0) view.rescale_pause = Seconds(progress.rescale_seconds);
  if (progress.suspend_seconds > 0) view.suspend_pause = Seconds(progress.suspend_seconds);
  view.budget_left = progress.budget_left;
  view.work.total_steps = progress.total_steps;
  view.work.remaining_steps = progress.remaining_steps;
  view.work.steps_per_s = progress.steps_per_second;
  if (progress.steps_per_second > 0) view.work.paused_until = Seconds(now_s);
}

void expect_change(JobView& view, DeviceSet held, double now_s) {
  scheduler::advance_work(view, Seconds(now_s));
  if (view.started) ++view.work.changes;
  const bool restarts = view.held.empty();
  view.held = std::move(held);
  view.changed = Seconds(now_s);
  view.work.steps_per_s = expected_speed(view);
  const Seconds pause = !view.started ? view.start_pause
                        : restarts    ? view.suspend_pause
                                      : view.rescale_pause;
  view.work.paused_until = Seconds(now_s) + pause;
}

void limit_holding(JobView& view, std::uint32_t returning) {
  if (returning + view.held.total() <= view.max_p) return;
  if (returning > 0) view.settled = false;
  if (view.held.empty() && !view.pinned) view.pinned = DeviceSet();
}

}  // namespace es::actors
