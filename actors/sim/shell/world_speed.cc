// The part of World for the speeds of jobs, the reports of their workers, and their checkpoints.
#include <caf/all.hpp>

#include <algorithm>
#include <cmath>
#include <set>

#include "actors/base/gateway/core/peer_id.h"
#include "actors/base/protocol/wire/codec.h"
#include "actors/sim/shell/world_actor.h"
#include "scheduler/model/step_pace.h"

namespace es::actors::simulator {

namespace {

// Number of frequent reports after a change of speed: the first step, which is not counted, and as
// many blocks as are needed until the median of the newest blocks has followed. After these, the
// interval doubles with each report.
constexpr int kReportsAfterChange = 1 + static_cast<int>(scheduler::StepPace::kBlocks);
constexpr double kStepsOfAReportMax = 1e9;

}  // namespace

// --- Slow devices.

void WorldState::plan_straggler() {
  if (!straggler_plan_ || finished_ == runs_.size()) return;
  const Mishaps::Mishap next = straggler_plan_->next();
  after(next.after_s, {Timer::kSlow, next.subject});
}

// The speed of the job changes from its next step on.
void WorldState::set_slow(std::size_t device, bool slow) {
  const DeviceId& id = devices_[device];
  if (slow) {
    plan_straggler();
    // The device is slow already; its slow time is not extended.
    if (!slow_.insert(id).second) return;
    ++stragglers_;
    after(options_.straggler_s, {Timer::kUsual, device});
  } else {
    slow_.erase(id);
  }
  for (const auto& [incarnation, worker] : workers_) {
    if (worker.device != id) continue;
    const Run& run = run_of(worker);
    if (!run.steps || run.stops) return;
    const double next = steps_done(run, now_s()) + 1;
    return after(run.since_s + next * run.step_s - now_s(),
                 {Timer::kPace, index_of(run), run.epoch});
  }
}

Spread WorldState::spread_of(const Run& run) const {
  std::set<std::string> nodes, racks;
  for (const protocol::Member& member : run.members) {
    const auto at = workers_.find(member.incarnation);
    if (at == workers_.end()) continue;
    nodes.insert(at->second.device.node);
    racks.insert(racks_.at(at->second.device.node));
  }
  return {static_cast<std::uint32_t>(nodes.size()), static_cast<std::uint32_t>(racks.size())};
}

void WorldState::set_pace(Run& run) {
  const WorkJob& job = workload_->jobs[index_of(run)];
  run.local_s.clear();
  run.step_s = 0;
  for (const protocol::Member& member : run.members) {
    const auto at = workers_.find(member.incarnation);
    if (at == workers_.end()) {  // the head is about to hear of the loss
      run.local_s.push_back(0);
      continue;
    }
    const DeviceId& device = at->second.device;
    const double factor = slow_.contains(device) ? options_.straggler_factor : 1;
    run.local_s.push_back(factor / job.capabilities.at(device.type));
    run.step_s = std::max(run.step_s, member.ranks.size() * run.local_s.back());
  }
  // The slowest member decides the time of a global step (the waste model). The cost of
  // synchronisation is added, and the planner does not know it.
  run.step_s += options_.sync_s * static_cast<double>(run.members.size() - 1);
  if (options_.node_sync_s == 0 && options_.rack_sync_s == 0) return;
  const Spread spread = spread_of(run);
  run.step_s += options_.node_sync_s * (std::max(spread.nodes, 1U) - 1) +
                options_.rack_sync_s * (std::max(spread.racks, 1U) - 1);
}

// Called at the end of a step.
void WorldState::change_pace(Run& run) {
  if (!run.steps || run.stops) return;
  report(run);  // at the old speed
  run.version = version_at(run, now_s());
  set_pace(run);
  plan_steps(run);
}

// --- Reports of workers.

void WorldState::plan_report(Run& run) {
  const double block = std::max(1.0, std::ceil(scheduler::StepPace::kBlock.count() / run.step_s));
  // The interval doubles with each report. The limit of 40 keeps the power of two finite;
  // kStepsOfAReportMax applies long before.
  const int later = std::clamp(run.reports - kReportsAfterChange, 0, 40);
  const double steps =
      run.reports == 0 ? 1 : std::min(kStepsOfAReportMax, std::ldexp(block, later));
  const double next = steps_done(run, now_s()) + steps;
  const Version last = workload_->jobs[index_of(run)].spec.steps;
  if (next >= static_cast<double>(last - run.version)) return;  // the end is reported in any case
  after(run.since_s + next * run.step_s - now_s(), {Timer::kReport, index_of(run), run.epoch});
}

// Sends what real members send after each step, for all steps since the last report.
void WorldState::report(Run& run) {
  const Version version = version_at(run, now_s());
  const Version last = workload_->jobs[index_of(run)].spec.steps;
  if (!options_.is_measured() || version == last || version <= run.reported) return;
  if (version > run.told) commit(run, run.members.front().incarnation, version);
  for (std::size_t i = 0; i < run.members.size(); ++i) {
    const protocol::Member& member = run.members[i];
    const ::es::Envelope envelope{
        .job = run.id, .generation = run.generation, .sender = member.incarnation};
    const auto stats = Msg<wire::WorkerStats>::build(envelope, [&](wire::WorkerStats::Builder b) {
      b.setVersion(version);
      b.setLocalStepSeconds(run.local_s[i]);
      b.setSteps(static_cast<std::uint32_t>(version - run.reported));
      auto list = b.initEstSeconds(member.ranks.size());
      for (unsigned rank = 0; rank < list.size(); ++rank) list.set(rank, run.local_s[i]);
    });
    self_->send(run.actor, Inbound{worker_peer(member.incarnation), stats.frame()});
  }
  run.reported = version;
  ++run.reports;
  plan_report(run);
}

// --- Checkpoints.

void WorldState::plan_checkpoint(Run& run) {
  if (!run.checkpoint || !run.steps) return;
  const double steps = static_cast<double>(run.checkpoint->at - run.version);
  after(run.since_s + steps * run.step_s - now_s(), {Timer::kCheckpoint, index_of(run), run.epoch});
}

void WorldState::write_checkpoint(Run& run) {
  if (!run.checkpoint) return;
  const protocol::WriteCheckpoint asked = *std::exchange(run.checkpoint, std::nullopt);
  const Incarnation by = run.members.front().incarnation;
  const Version version = version_at(run, now_s());
  if (version > run.told) commit(run, by, version);
  const std::string suffix = asked.periodic ? "/step-" + std::to_string(version) : "";
  tell(run, protocol::CheckpointWritten{.stamp = {asked.stamp.generation, by},
                                        .request = asked.request,
                                        .path = asked.directory + suffix,
                                        .version = version,
                                        .digests = {},
                                        .error = {}});
}

}  // namespace es::actors::simulator
