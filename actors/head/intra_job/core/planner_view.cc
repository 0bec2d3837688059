#include "actors/head/intra_job/core/planner_view.h"

#include <algorithm>

namespace es::actors::intra_job {

namespace {

double budget_left_of(const JobRecord& record) {
  if (record.budget == 0) return scheduler::kNever.count();
  return std::max(0.0, record.budget - record.spent);
}

}  // namespace

PlannerView planner_view_of(const JobCore& core, bool stalled, Instant now) {
  return {.state = core.state(),
          .phase = core.phase(),
          .generation = core.generation(),
          .progress = core.progress(),
          .ledger_through = core.ledger().through(),
          .fleet = core.fleet(),
          .members = core.members(),
          .bound_type = core.record().bound_type,
          .budget_left = budget_left_of(core.record()),
          .stalled = stalled,
          .now = now};
}

DeviceSet held_devices(const PlannerView& job) {
  DeviceSet held;
  for (const auto& [incarnation, worker] : job.fleet.workers())
    if (job.fleet.allocated(worker.device)) held.add(worker.device.type, 1);
  return held;
}

std::vector<DeviceId> member_devices(const PlannerView& job) {
  std::vector<DeviceId> devices;
  for (const Incarnation incarnation : job.fleet.placed())
    devices.push_back(job.fleet.workers().at(incarnation).device);
  return devices;
}

std::vector<RankRange> member_ranks(const PlannerView& job) {
  std::vector<RankRange> ranks;
  for (const Incarnation incarnation : job.fleet.placed())
    for (const protocol::Member& member : job.members)
      if (member.incarnation == incarnation) ranks.push_back(member.ranks);
  return ranks;
}

DeviceSet count_by_type(const std::vector<DeviceId>& devices) {
  DeviceSet set;
  for (const DeviceId& device : devices) set.add(device.type, 1);
  return set;
}

// The job uses exactly what it was given if no process is still joining on a device that it may use
// and no member is left on one that it must leave.
bool has_adopted(const PlannerView& job) {
  if (job.phase == Phase::kIdle) return true;
  if (job.phase != Phase::kNormal) return false;
  return std::ranges::none_of(job.fleet.workers(), [&](const auto& entry) {
    const Worker& worker = entry.second;
    const bool joins =
        worker.phase == Worker::Phase::kStarting || worker.phase == Worker::Phase::kWarm;
    return job.fleet.allocated(worker.device)
               ? joins
               : worker.placed && worker.phase == Worker::Phase::kKnown;
  });
}

}  // namespace es::actors::intra_job
