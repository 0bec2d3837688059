#include "actors/intra_job/shell/journal_record.h"

namespace es::actors {
namespace {

using intra_job::JobState;
using store::JobPhase;

JobPhase phase_of(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return JobPhase::kQueued;
    case JobState::kStarting:
    case JobState::kRunning:
    case JobState::kRescaling:
      return JobPhase::kRunning;
    case JobState::kPaused:
      return JobPhase::kPaused;
    case JobState::kFinished:
      return JobPhase::kCompleted;
    case JobState::kFailed:
      return JobPhase::kFailed;
    case JobState::kCancelled:
      return JobPhase::kCancelled;
  }
  return JobPhase::kFailed;
}

JobState state_of(JobPhase phase) {
  switch (phase) {
    case JobPhase::kQueued:
      return JobState::kQueued;
    case JobPhase::kRunning:
      return JobState::kStarting;
    case JobPhase::kPaused:
      return JobState::kPaused;
    case JobPhase::kCompleted:
      return JobState::kFinished;
    case JobPhase::kFailed:
      return JobState::kFailed;
    case JobPhase::kCancelled:
      return JobState::kCancelled;
  }
  return JobState::kFailed;
}

store::CheckpointRef stored_ref(const intra_job::CheckpointRef& ref) {
  return {ref.path,           ref.version,      ref.periodic, {ref.nodes.begin(), ref.nodes.end()},
          ref.digests.params, ref.digests.state};
}

intra_job::CheckpointRef core_ref(const store::CheckpointRef& ref) {
  return {ref.path,
          ref.version,
          ref.periodic,
          {ref.nodes.begin(), ref.nodes.end()},
          {ref.params, ref.state}};
}

}  // namespace

void update(store::JobRecord& stored, const intra_job::JobRecord& record) {
  stored.phase = phase_of(record.state);
  stored.error = record.error;
  stored.generation = record.generation;
  stored.known.clear();
  for (const intra_job::KnownWorker& worker : record.known)
    stored.known.push_back({worker.incarnation, worker.device.node, worker.device.type,
                            worker.device.index, worker.address, worker.host_id});
  stored.pinned = record.pinned;
  stored.bound_type = record.bound_type.value_or(DeviceType{});
  stored.checkpoints.clear();
  if (record.checkpoint) stored.checkpoints.push_back(stored_ref(*record.checkpoint));
  for (const intra_job::CheckpointRef& ref : record.older)
    stored.checkpoints.push_back(stored_ref(ref));
  stored.spoiled.clear();
  for (const intra_job::CheckpointRef& ref : record.spoiled)
    stored.spoiled.push_back(stored_ref(ref));
  stored.set_aside = record.set_aside;
  stored.rewinding = record.rewinding;
}

void update(store::JobRecord& stored, const std::vector<scheduler::Refusal>& refusals) {
  stored.refusals.clear();
  for (const scheduler::Refusal& refusal : refusals)
    stored.refusals.push_back({refusal.held, refusal.types, refusal.capabilities});
}

std::vector<scheduler::Refusal> refusals_of(const store::JobRecord& stored) {
  std::vector<scheduler::Refusal> refusals;
  for (const store::Refusal& refusal : stored.refusals)
    refusals.push_back({refusal.held, refusal.types, refusal.capabilities});
  return refusals;
}

intra_job::JobRecord core_record(const store::JobRecord& stored) {
  intra_job::JobRecord record;
  record.state = state_of(stored.phase);
  record.error = stored.error;
  record.generation = stored.generation;
  for (const store::KnownWorker& worker : stored.known)
    record.known.push_back({worker.incarnation,
                            {worker.node, worker.device_type, worker.device_index},
                            worker.address,
                            worker.host_id});
  record.pinned = stored.pinned;
  if (!stored.bound_type.name.empty()) record.bound_type = stored.bound_type;
  for (const store::CheckpointRef& ref : stored.checkpoints) record.older.push_back(core_ref(ref));
  if (!record.older.empty()) {
    record.checkpoint = record.older.front();
    record.older.erase(record.older.begin());
  }
  for (const store::CheckpointRef& ref : stored.spoiled) record.spoiled.push_back(core_ref(ref));
  record.set_aside = stored.set_aside;
  record.rewinding = stored.rewinding;
  return record;
}

}  // namespace es::actors
