#pragma once
// PlannerView is what the planner (job_planner.h) sees of the job at one moment. It is made for one
// call: its references are those of the job's core. Pure functions.
#include <vector>

#include "actors/head/intra_job/core/fleet.h"
#include "actors/head/intra_job/core/job_core.h"

namespace es::actors::intra_job {

struct PlannerView {
  JobState state = JobState::kQueued;
  Phase phase = Phase::kIdle;
  Generation generation;
  Version progress = 0;        // JobCore::progress()
  Version ledger_through = 0;  // version of the newest ledger line
  const Fleet& fleet;
  const std::vector<protocol::Member>& members;    // of the last placement
  const std::optional<DeviceType>& bound_type;     // JobRecord::bound_type
  double budget_left = scheduler::kNever.count();  // what it may still spend
  bool stalled = false;  // the state directory cannot be written, so nothing can be changed
  Instant now{};
};

PlannerView planner_view_of(const JobCore& core, bool stalled, Instant now);

// The devices of the job's workers, without those that are being given back.
DeviceSet held_devices(const PlannerView& job);
// The devices of the placement, ordered by the incarnations of their workers.
std::vector<DeviceId> member_devices(const PlannerView& job);
// Their present ranks, in the same order.
std::vector<RankRange> member_ranks(const PlannerView& job);
DeviceSet count_by_type(const std::vector<DeviceId>& devices);
// Returns whether the job uses exactly the devices that it was last given. A job without a
// placement counts as ready, because it can still take more devices at no cost.
bool has_adopted(const PlannerView& job);

}  // namespace es::actors::intra_job
