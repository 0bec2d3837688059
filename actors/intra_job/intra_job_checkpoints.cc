// IntraJobCore: checkpoints, on demand and of the job's own series, and what is left of them when a
// restart needs one.
#include <algorithm>
#include <utility>

#include "actors/intra_job/intra_job_core.h"

namespace es::actors::intra_job {

using namespace protocol;

void IntraJobCore::handle(const CheckpointCommand& event) {
  if (phase_ == Phase::kEnding) {
    checkpoint_done(event.request, refused("the job has ended"));
    return;
  }
  if (paused()) {
    return checkpoint_done(event.request,
                           refused("the job is paused; what it holds is in its newest checkpoint"));
  }
  checkpoints_.push_back({event.request, event.directory});
  if (phase_ == Phase::kNormal || phase_ == Phase::kDraining) ask_for_checkpoints();
}

// Any member can: each holds a whole version. A round makes it forget; after Go it is asked again.
void IntraJobCore::ask_for_checkpoints() {
  const Worker& writer = *fleet_.find(members_.front().incarnation);
  for (PendingCheckpoint& pending : checkpoints_) {
    pending.asked.insert(writer.incarnation);
    send(writer, WriteCheckpoint{.stamp = stamp(),
                                 .request = pending.request,
                                 .directory = pending.directory,
                                 .remove = {}});
  }
}

// Ahead of time, so that the writer meets the version exactly.
void IntraJobCore::ask_for_periodic() {
  periodic_.plan(ledger_.through(), record_);
  const bool stepping = phase_ == Phase::kNormal || phase_ == Phase::kDraining;
  if (!stepping || !periodic_.pending()) return;
  const PeriodicRequest& request = *periodic_.pending();
  send(*fleet_.find(members_.front().incarnation),
       WriteCheckpoint{.stamp = stamp(),
                       .request = request.number,
                       .directory = config_.checkpoint_directory,
                       .periodic = true,
                       .at = request.at,
                       .remove = request.remove});
}

void IntraJobCore::drop_written_checkpoints(const std::string& why) {
  for (const CheckpointWritten& written : std::exchange(written_, {})) {
    if (periodic_.is_pending(written.request)) continue;
    checkpoint_done(written.request, refused(why));
  }
  periodic_.forget();
}

void IntraJobCore::handle(Worker&, const CheckpointWritten& message) {
  if (periodic_.is_pending(message.request)) {
    if (!message.error.empty()) return periodic_failed(message.error);
    written_.push_back(message);
    return take_written_checkpoints();
  }
  const auto pending = std::find_if(
      checkpoints_.begin(), checkpoints_.end(),
      [&](const PendingCheckpoint& asked) { return asked.request == message.request; });
  if (pending == checkpoints_.end()) return;
  // Of a suspension that was given up: nobody's any more, it may be gone at any moment.
  const CheckpointRef ref{message.path, message.version};
  if (is_suspension(ref, config_.suspend_prefix) && ref.path != pending->directory) return;
  if (!message.error.empty()) {
    pending->why_not = Error{message.error_kind, message.error};
    return no_answer_from(message.stamp.sender);
  }
  checkpoints_.erase(pending);
  written_.push_back(message);
  take_written_checkpoints();
}

// The last one's error stands, when there was one.
void IntraJobCore::no_answer_from(Incarnation worker) {
  std::vector<std::pair<std::uint64_t, Error>> failed;
  std::erase_if(checkpoints_, [&](PendingCheckpoint& pending) {
    pending.asked.erase(worker);
    if (!pending.asked.empty() || !pending.why_not) return false;
    failed.emplace_back(pending.request, *pending.why_not);
    return true;
  });
  for (const auto& [request, error] : failed) checkpoint_done(request, error);
}

// The job goes on without: its last good one is untouched, and the next one may succeed.
void IntraJobCore::periodic_failed(const std::string& why) {
  const Version version = std::max(periodic_.pending()->at, ledger_.through());
  write_warning_ = "no checkpoint of version " + std::to_string(version) + ": " + why;
  log("warning: " + write_warning_);
  periodic_.settle(version);
  ask_for_periodic();
}

// A checkpoint is valid when the ledger tells how its version came to be. Lines can be late when
// the head was away; if all who know them are lost, so is the checkpoint.
void IntraJobCore::take_written_checkpoints() {
  for (const CheckpointWritten& written : std::exchange(written_, {})) {
    if (written.version > ledger_.through()) {
      written_.push_back(written);
    } else {
      take_checkpoint(written);
    }
  }
}

void IntraJobCore::take_checkpoint(const CheckpointWritten& message) {
  const bool periodic = periodic_.is_pending(message.request);
  const CheckpointRef written{message.path, message.version, periodic};
  log("worker " + std::to_string(message.stamp.sender.value) + " wrote checkpoint " + written.path +
      " of version " + std::to_string(written.version));
  add_checkpoint(record_, written,
                 periodic ? periodic_.pending()->remove : std::vector<std::string>());
  const bool suspension = is_suspension(written, config_.suspend_prefix);
  // A client's may go at any time; these stay as long as the job goes on from them.
  const bool replaced = (periodic || suspension) && record_.checkpoint->path == written.path &&
                        drop_suspensions(record_, config_.suspend_prefix, written.path);
  save();
  if (replaced || suspension) keep_suspensions();
  if (!periodic) {
    checkpoint_done(message.request, CheckpointTaken{written, message.digests});
    return;
  }
  if (!write_warning_.empty()) log("checkpoints are written again");
  write_warning_.clear();
  periodic_.settle(written.version);
  ask_for_periodic();
}

// REQUIRES: what the record says is saved.
void IntraJobCore::keep_suspensions() {
  if (config_.suspend_prefix.empty()) return;
  effects_.push_back(KeepSuspensions{suspensions(record_, config_.suspend_prefix)});
}

// The one before it serves as well: the steps between are done again, with the same bits.
void IntraJobCore::handle(Worker& worker, const CheckpointUnreadable& message) {
  if (phase_ != Phase::kInstalling) return;
  const std::string where = worker.device.text() + ": " + message.error;
  if (!drop_checkpoint(record_, message.path)) return fail(where);
  const auto [source, version] = restart_point();
  const auto* next = std::get_if<FromCheckpoint>(&source);
  damage_warning_ = where + "; going on from version " + std::to_string(version) + ", " +
                    (next != nullptr ? "checkpoint " + next->path : "the start of the job");
  log("warning: " + damage_warning_);
  begin_round();
}

std::string IntraJobCore::warning() const {
  if (write_warning_.empty() || damage_warning_.empty()) return write_warning_ + damage_warning_;
  return damage_warning_ + "; " + write_warning_;
}

}  // namespace es::actors::intra_job
