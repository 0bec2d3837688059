#pragma once
// What the head of a job decides about its checkpoints: when the next one of the job's own series
// is due, which ones are removed, and from which one a restart begins.
//
// The series contains one checkpoint at every multiple of CheckpointSpec::every_steps and one at
// the last version. Only one is written at a time; those that become due while the disk is still
// busy are left out. Nodes remove an older checkpoint after the record with the newer one is
// durable, so all that the record names exist at any moment. Checkpoints that an audit has made
// void are removed in the same way, as soon as the series has passed their versions. Pure; owned by
// the core.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/head/intra_job/core/job_events.h"

namespace es::actors::intra_job {

// A checkpoint of the series for which a worker was asked, or is to be asked.
struct PeriodicRequest {
  std::uint64_t number = 0;  // number of the WriteCheckpoint; clients never use it
  Version at = 0;
  std::vector<std::string> remove;  // paths to remove when this checkpoint is recorded
};

class PeriodicCheckpoints {
 public:
  // `record` is the record of a restarted head.
  PeriodicCheckpoints(const CheckpointSpec& spec, Version last_version, const JobRecord& record);

  // Plans the next checkpoint after `through`, the newest version in the ledger, unless one is
  // pending. Plans nothing if the spec asks for no checkpoints or if the one of the last version
  // was tried.
  void plan(Version through, const JobRecord& record);
  const std::optional<PeriodicRequest>& pending() const { return pending_; }
  bool is_pending(std::uint64_t number) const { return pending_ && pending_->number == number; }
  // The job ends earlier: no checkpoint of a later version will be written.
  void end_at(Version last_version);
  // The pending checkpoint was written as `version`, or failed at it.
  void settle(Version version);
  // Drops the pending checkpoint, because its writer and every worker that could repeat it are
  // lost. It will be planned again.
  void forget() { pending_.reset(); }

 private:
  CheckpointSpec spec_;
  Version last_version_;
  Version tried_ = 0;  // newest version that was written or has failed
  std::uint64_t planned_ = 0;
  std::optional<PeriodicRequest> pending_;
};

// The number of a request of the job's own, after `made` others of its kind by this head. `first`
// is the least one. A restarted head begins a new generation, so its numbers differ.
std::uint64_t own_request_number(std::uint64_t first, Generation generation, std::uint64_t made);

// Adds a checkpoint that is on the disk to the record. Removes those whose paths are in `removed`,
// also from the void ones.
void add_checkpoint(JobRecord& record, CheckpointRef written,
                    const std::vector<std::string>& removed);

// Removes the checkpoints of versions after `good` from the record and returns them, newest first.
std::vector<CheckpointRef> drop_newer(JobRecord& record, Version good);

// Returns the name of a file or directory without the directories that contain it.
std::string_view name_of(std::string_view path);

// Returns whether the job wrote it to give up all its devices: its name is that of `prefix` and a
// number. The directory may be another one (Config.suspend_prefix).
bool is_suspension(const CheckpointRef& ref, std::string_view prefix);
// Returns the paths of these checkpoints, newest first.
std::vector<std::string> suspensions(const JobRecord& record, std::string_view prefix);
// Removes all of them from the record except `newest`, which need not be one of them. Returns false
// if there was no other.
bool drop_suspensions(JobRecord& record, std::string_view prefix, std::string_view newest);

// Removes the checkpoint at `path` from the record; false: the record does not contain it.
bool drop_checkpoint(JobRecord& record, std::string_view path);

}  // namespace es::actors::intra_job
