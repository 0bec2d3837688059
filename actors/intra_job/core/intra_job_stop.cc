// IntraJobCore: the end of a job before its last version. A job is cancelled at once, unless a
// checkpoint was requested at its end. Then the members drain, so that nothing is computed that the
// checkpoint does not contain, and one of them writes it. The job ends when it is written or has
// failed.
#include <algorithm>

#include "actors/intra_job/core/intra_job_core.h"

namespace es::actors::intra_job {

using namespace protocol;

// In phase Idle no worker holds anything newer than the restart point. At the last version the
// members do not stop: the job ends by itself, with its checkpoint.
void IntraJobCore::consider_stop() {
  if (!stops()) return;
  if (at_end_.empty() || phase_ == Phase::kIdle) return end(JobState::kCancelled, "");
  if (phase_ != Phase::kNormal || next_version() == config_.last_version) return;
  if (!all_stopped()) return drain();
  if (move_at_end(0)) ask_for_checkpoints();
}

// Sets the version from which on the checkpoints at the end may be written. After a round the
// members step again and stop at another version. Returns whether anything changed.
bool IntraJobCore::move_at_end(Version version) {
  bool changed = false;
  for (PendingCheckpoint& pending : checkpoints_) {
    if (!at_end_.contains(pending.request) || pending.at == version) continue;
    pending.at = version;
    changed = true;
  }
  return changed;
}

// Returns why the state of the last version was saved nowhere although the job writes checkpoints;
// otherwise empty.
std::string IntraJobCore::unsaved() const {
  const bool kept = record_.checkpoint && record_.checkpoint->version == config_.last_version;
  if (kept || write_warning_.empty()) return {};
  return "all " + std::to_string(config_.last_version) +
         " steps are done, but their result is not kept: " + write_warning_;
}

}  // namespace es::actors::intra_job
