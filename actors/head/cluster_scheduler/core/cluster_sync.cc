// ClusterCore: what jobs are expected to lose by communication (scheduler/model/sync_prior.h).
#include <algorithm>
#include <utility>

#include "actors/head/cluster_scheduler/core/cluster_core.h"
#include "scheduler/model/step_pace.h"

namespace es::actors {
namespace {

using scheduler::JobView;

// A job measures communication in three blocks of steps (step_pace.h), after a first step that does
// not count. With twice as many blocks the times of messages do not matter.
constexpr double kBlocks = 8;

// When a job on its present devices will have measured what it loses; never if it cannot.
double measured_by_s(const JobView& view) {
  if (view.held.total() < 2 || view.work.steps_per_s <= 0) return scheduler::kNever.count();
  const double step_s = view.max_p / view.work.steps_per_s;
  const scheduler::Seconds pause =
      std::max({view.start_pause, view.rescale_pause, view.suspend_pause});
  return (view.changed + pause).count() +
         kBlocks * std::max(scheduler::StepPace::kBlock.count(), step_s);
}

}  // namespace

// Called before the devices of the job change in the view.
void ClusterCore::note_sync(Job& job) {
  const JobView& view = view_.jobs[job.slot];
  if (view.id.empty() || job.loses_nothing || !view.sync.empty()) return;
  if (measured_by_s(view) > now_s_) return;
  job.loses_nothing = true;
  learn_sync(view, 0);
}

// Without a policy that asks for it nothing is expected, so no decision is made because of it.
void ClusterCore::learn_sync(const JobView& view, double seconds_per_device) {
  if (policy_->expects_sync() && sync_prior_.add(view.number, seconds_per_device))
    expectation_changed_ = true;
}

void ClusterCore::expect_sync(const Job& job, JobView& view) {
  measured_by_s_.erase(view.number);
  const bool is_known = job.loses_nothing || !view.sync.empty();
  view.expected_sync_s = is_known ? 0 : sync_prior_.seconds();
  // Until a job measures that it loses nothing, no message may come from it.
  const double at_s = measured_by_s(view);
  if (view.expected_sync_s > 0 && at_s < scheduler::kNever.count())
    measured_by_s_[view.number] = at_s;
}

void ClusterCore::renew_expected_sync() {
  for (const auto& [number, at_s] : measured_by_s_)
    if (at_s <= now_s_) touch(jobs_.at(number));
  if (!std::exchange(expectation_changed_, false)) return;
  for (auto& [number, job] : jobs_)
    if (view_.jobs[job.slot].sync.empty()) touch(job);
}

double ClusterCore::next_measured_s() const {
  double next_s = scheduler::kNever.count();
  for (const auto& [number, at_s] : measured_by_s_) next_s = std::min(next_s, at_s);
  return next_s;
}

}  // namespace es::actors
