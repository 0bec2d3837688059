#include "actors/head/cluster_scheduler/core/sync_forecast.h"

#include <algorithm>

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

void SyncForecast::learn(std::uint64_t number, double seconds_per_device) {
  if (is_used_ && prior_.add(number, seconds_per_device)) changed_ = true;
}

bool SyncForecast::loses_nothing(const JobView& view, double now_s) {
  if (view.id.empty() || !view.sync.empty() || measured_by_s(view) > now_s) return false;
  learn(view.number, 0);
  return true;
}

void SyncForecast::expect(JobView& view, bool loses_nothing) {
  const bool is_known = loses_nothing || !view.sync.empty();
  view.expected_sync_s = is_known ? 0 : prior_.seconds();
  // Until a job measures that it loses nothing, no message may come from it.
  measured_by_.set(view.number,
                   view.expected_sync_s > 0 ? measured_by_s(view) : scheduler::kNever.count());
}

}  // namespace es::actors
