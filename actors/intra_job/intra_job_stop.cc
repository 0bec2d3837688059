// IntraJobCore: the end before the last version. A job is cancelled at once, unless a checkpoint
// was asked for at its end: then its members drain, so that nothing is computed that the checkpoint
// does not hold, one of them writes it, and the job ends when it is written, or cannot be.
#include <algorithm>

#include "actors/intra_job/intra_job_core.h"

namespace es::actors::intra_job {

using namespace protocol;

// In Idle nobody holds anything newer than the restart point. At the last version nobody stops: the
// job ends by itself, with its checkpoint.
void IntraJobCore::consider_stop() {
  if (!stops()) return;
  if (at_end_.empty() || phase_ == Phase::kIdle) return end(JobState::kCancelled, "");
  if (phase_ != Phase::kNormal || next_version() == config_.last_version) return;
  if (!all_stopped()) return drain();
  if (move_at_end(0)) ask_for_checkpoints();
}

// What is to be written at the end is written from this version on. After a round the members step
// again, and stop at another one.
bool IntraJobCore::move_at_end(Version version) {
  bool changed = false;
  for (PendingCheckpoint& pending : checkpoints_) {
    if (!at_end_.contains(pending.request) || pending.at == version) continue;
    pending.at = version;
    changed = true;
  }
  return changed;
}

// Why the state of the last version is nowhere, though the job writes checkpoints; else empty.
std::string IntraJobCore::unsaved() const {
  const bool kept = record_.checkpoint && record_.checkpoint->version == config_.last_version;
  if (kept || write_warning_.empty()) return {};
  return "all " + std::to_string(config_.last_version) +
         " steps are done, but their result is not kept: " + write_warning_;
}

}  // namespace es::actors::intra_job
