#pragma once
// What the head of a job decides about checkpoints: when the next one of its own series is due,
// which ones go, and which one a restart begins from.
//
// The series: one at every multiple of CheckpointSpec::every_steps and one at the job's last
// version, one at a time: those that fall due while the disk is still busy are left out. An older
// one is removed by the writer once the newer one is on the disk and verified, so at least keep - 1
// whole ones are there at any moment. In the same way go those that an audit has made void, as soon
// as the series is past their versions. Pure; owned by the core.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/intra_job/intra_job_events.h"

namespace es::actors::intra_job {

// A checkpoint of the series that a worker was, or is to be, asked for.
struct PeriodicRequest {
  std::uint64_t number = 0;  // of WriteCheckpoint; never one of a client's
  Version at = 0;
  std::vector<std::string> remove;  // paths
};

class PeriodicCheckpoints {
 public:
  // `record`: as a restarted head found it.
  PeriodicCheckpoints(const CheckpointSpec& spec, Version last_version, const JobRecord& record);

  // Plans the next one unless one is pending: after `through`, the newest version in the ledger.
  // Nothing is planned when the spec wants none or the last version's has been tried.
  void plan(Version through, const JobRecord& record);
  const std::optional<PeriodicRequest>& pending() const { return pending_; }
  bool is_pending(std::uint64_t number) const { return pending_ && pending_->number == number; }
  // The pending one was written as `version`, or failed at it.
  void settle(Version version);
  // Its writer and all who could repeat it are lost; it will be planned anew.
  void forget() { pending_.reset(); }

 private:
  CheckpointSpec spec_;
  Version last_version_;
  Version tried_ = 0;  // newest version that was written or has failed
  std::uint64_t planned_ = 0;
  std::optional<PeriodicRequest> pending_;
};

// Takes over a checkpoint that is on the disk, and forgets those whose paths are in `removed`, void
// ones as well.
void add_checkpoint(JobRecord& record, CheckpointRef written,
                    const std::vector<std::string>& removed);

// Forgets those of versions after `good`, and returns them, newest first.
std::vector<CheckpointRef> drop_newer(JobRecord& record, Version good);

// Whether it was written when the job gave up all its devices: into `prefix` and a number.
bool is_suspension(const CheckpointRef& ref, std::string_view prefix);
// Paths of those, newest first.
std::vector<std::string> suspensions(const JobRecord& record, std::string_view prefix);
// Forgets them all but `newest`, which may be none of them; false: there was no other.
bool drop_suspensions(JobRecord& record, std::string_view prefix, std::string_view newest);

// Forgets the checkpoint at `path`; false: the record does not have it.
bool drop_checkpoint(JobRecord& record, std::string_view path);

}  // namespace es::actors::intra_job
