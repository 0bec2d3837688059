// JobPlanner: the changes that it makes to the job's devices and ranks.
#include <algorithm>
#include <utility>

#include "actors/base/protocol/core/instant.h"
#include "actors/head/intra_job/core/job_planner.h"
#include "scheduler/model/device_sets.h"
#include "scheduler/plans/plans.h"
#include "scheduler/plans/rebalance.h"

namespace es::actors::intra_job {
namespace {

std::string milliseconds_text(double seconds) {
  return decimal(seconds * 1e3, 1) + " ms";
}

// Among the devices of a type, those whose workers came last are given back.
GiveBackCommand give_back(DeviceSet rest, const PlannerView& job) {
  GiveBackCommand command;
  const std::vector<DeviceId> devices = member_devices(job);
  for (auto device = devices.rbegin(); device != devices.rend(); ++device) {
    if (rest.count_of(device->type) == 0) continue;
    rest.remove(device->type, 1);
    command.devices.push_back(*device);
  }
  return command;
}

}  // namespace

bool JobPlanner::may_change_devices(const PlannerView& job) const {
  return !job.stalled && job.phase == Phase::kNormal && !demand_is_exact_;
}

PlannerEffects JobPlanner::fall_back(const PlannerView& job) {
  const auto verdict = grant_trial_.verdict();
  if (!verdict || !may_change_devices(job)) return {};
  if (fewer_would_be_faster(job, verdict->seconds_before)) return {};
  // The refusal is made here and journaled before the devices go back, so that the same grant is
  // not given again.
  grant_trial_.fall_back();
  return {LogLine{"gives " + verdict->give_back.text() + " back: a step takes " +
                  milliseconds_text(verdict->seconds_now) + " with them, " +
                  milliseconds_text(verdict->seconds_before) + " without them"},
          RefusalsChanged{}, give_back(verdict->give_back, job)};
}

// Whether communication is known to be what made the job slower, and a part of the new devices is
// expected to make it faster than it was. Then release_unused() gives back the others only.
bool JobPlanner::fewer_would_be_faster(const PlannerView& job, double seconds_before) const {
  const DeviceSet held = count_by_type(member_devices(job));
  if (!speeds_.sync().has(held.total()) || held != held_devices(job)) return false;
  const auto best = scheduler::best_plan({.max_p = options_.max_p,
                                          .capabilities = speeds_.capabilities(),
                                          .available = held,
                                          .mix_types = options_.level == DeterminismLevel::kD2,
                                          .sync = speeds_.sync()});
  return best && best->plan.devices() != held &&
         best->estimate.f_seconds_per_step < (1 - kLeaveGainMin) * seconds_before &&
         !released_from_.contains(held.text());
}

PlannerEffects JobPlanner::release_unused(const PlannerView& job) {
  if (!may_change_devices(job) || is_near_the_end(job)) return {};
  const DeviceSet held = count_by_type(member_devices(job));
  const auto is_measured = [this](const DeviceCount& c) { return speeds_.is_measured(c.type); };
  // While the members use other devices than those that the job holds, a change is under way, and
  // speeds that are only assumed are no reason to give devices back.
  if (held != held_devices(job) || !std::ranges::all_of(held.counts, is_measured)) return {};
  scheduler::PlanQuery query{.max_p = options_.max_p,
                             .capabilities = speeds_.capabilities(),
                             .available = held,
                             .mix_types = options_.level == DeterminismLevel::kD2,
                             .sync = speeds_.sync()};
  const auto best = scheduler::best_plan(query);
  if (!best || best->plan.devices() == held) return {};
  if (best->plan.devices().total() < options_.resources.min_devices) return {};
  const DeviceSet unused = scheduler::beyond(held, best->plan.devices());
  const double now = grant_trial_.pace().value_or(model_seconds(job));
  const double then = best->estimate.f_seconds_per_step;
  query.sync = {};
  const double computes = *scheduler::least_seconds(query);
  // The computation alone would not be slower without them: they are of no use.
  if (then - speeds_.sync().seconds(best->plan.devices().total()) <= computes * (1 + 1e-9))
    return leave(unused, "the job is as fast without them", job);
  if (job.now - paced_since_ < kSettleTime) return {};
  const double saved = (now - then) * static_cast<double>(steps_left(job));
  if (then > (1 - kLeaveGainMin) * now || saved <= kPausesToLeave * in_seconds(pause())) return {};
  return leave(unused,
               "because of communication a step takes " + milliseconds_text(now) +
                   " with them, and should take " + milliseconds_text(then) + " without them",
               job);
}

PlannerEffects JobPlanner::leave(const DeviceSet& unused, const std::string& why,
                                 const PlannerView& job) {
  // If the job is given such a set again, giving it back once more could go on for ever.
  if (!released_from_.insert(count_by_type(member_devices(job)).text()).second) return {};
  return {LogLine{"gives " + unused.text() + " back: " + why}, give_back(unused, job)};
}

PlannerEffects JobPlanner::rebalance(const PlannerView& job) {
  // At D0 the sums of gradients depend on the ranks of each device, so ranks must not follow
  // measured speeds.
  if (job.phase != Phase::kNormal || job.stalled || options_.level == DeterminismLevel::kD0 ||
      job.now < next_rebalance_)
    return {};
  const std::vector<DeviceId> devices = member_devices(job);
  std::vector<double> capabilities;
  for (const DeviceId& device : devices) {
    // Assumed and measured capabilities cannot be compared.
    if (!speeds_.local_step_seconds(device)) return {};
    capabilities.push_back(speeds_.device_capability(device));
  }
  const std::vector<RankRange> current = member_ranks(job);
  const auto change = scheduler::rebalance(
      {.capabilities = capabilities,
       .current = current,
       .max_p = options_.max_p,
       .pause = scheduler::Seconds(in_seconds(pause())),
       .steps_left = steps_left(job),
       .sync_seconds = speeds_.sync().seconds(static_cast<std::uint32_t>(current.size())),
       .wire = speeds_.wire(devices)});
  if (!change) return {};
  next_rebalance_ = job.now + std::max<Instant>(kPausesApart * pause(), kRebalanceApart);
  return {LogLine{"moves ESTs: a global step would take " + decimal(change->seconds_then, 3) +
                  " s instead of " + decimal(change->seconds_now, 3) + " s"},
          RebalanceCommand{}};
}

}  // namespace es::actors::intra_job
