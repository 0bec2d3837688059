// IntraJobCore: checkpoints on request, checkpoints of the job's own series, and the choice of
// those that stay.
#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "actors/intra_job/core/intra_job_core.h"

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
  PendingCheckpoint pending{.request = event.request, .directory = event.directory};
  pending.otherwise = event.otherwise;
  if (event.at_end) {
    pending.at = config_.last_version;
    at_end_.insert(event.request);
  }
  checkpoints_.push_back(std::move(pending));
  if (phase_ == Phase::kNormal || phase_ == Phase::kDraining) ask_for_checkpoints();
}

// Any member can write, because each holds a whole version. A round makes the writer forget the
// request, so it is repeated after Go.
void IntraJobCore::ask_for_checkpoints() {
  const Worker& writer = *fleet_.find(members_.front().incarnation);
  for (PendingCheckpoint& pending : checkpoints_) {
    pending.asked.insert(writer.incarnation);
    send(writer, WriteCheckpoint{.stamp = stamp(),
                                 .request = pending.request,
                                 .directory = pending.directory,
                                 .at = pending.at,
                                 .remove = {},
                                 .make_parent = pending.make_parent});
  }
}

// The request is sent ahead of time, so that the writer meets the version exactly.
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
  for (const WrittenCheckpoint& written : std::exchange(written_, {})) {
    if (periodic_.is_pending(written.message.request)) continue;
    checkpoint_done(written.message.request, refused(why));
  }
  periodic_.forget();
}

void IntraJobCore::handle(Worker& worker, const CheckpointWritten& message) {
  if (periodic_.is_pending(message.request)) {
    if (!message.error.empty()) return periodic_failed(message.error);
    written_.push_back({message, worker.device.node});
    return take_written_checkpoints();
  }
  const auto pending = std::find_if(
      checkpoints_.begin(), checkpoints_.end(),
      [&](const PendingCheckpoint& asked) { return asked.request == message.request; });
  if (pending == checkpoints_.end()) return;
  // The checkpoint of a suspension that was given up does not belong to the job any more. It may be
  // removed at any moment.
  const CheckpointRef ref{message.path, message.version};
  if (is_suspension(ref, config_.suspend_prefix) && ref.path != pending->directory) return;
  if (!message.error.empty()) {
    pending->why_not = Error{message.error_kind, message.error};
    return no_answer_from(message.stamp.sender);
  }
  if (!pending->first_error.empty()) first_errors_[pending->request] = pending->first_error;
  checkpoints_.erase(pending);
  written_.push_back({message, worker.device.node});
  take_written_checkpoints();
}

// If several workers were asked, the last error is reported.
void IntraJobCore::no_answer_from(Incarnation worker) {
  std::vector<std::pair<std::uint64_t, Error>> failed;
  std::erase_if(checkpoints_, [&](PendingCheckpoint& pending) {
    pending.asked.erase(worker);
    if (!pending.asked.empty() || !pending.why_not || try_elsewhere(pending)) return false;
    failed.emplace_back(pending.request, *pending.why_not);
    return true;
  });
  for (const auto& [request, error] : failed) checkpoint_done(request, error);
}

// If the second directory fails too, the error names both reasons.
bool IntraJobCore::try_elsewhere(PendingCheckpoint& pending) {
  if (!pending.first_error.empty()) {
    pending.why_not->message = pending.first_error + "; " + pending.why_not->message;
    return false;
  }
  if (pending.otherwise.empty()) return false;
  pending.first_error = pending.why_not->message;
  pending.why_not.reset();
  log("warning: " + pending.first_error + "; trying " + pending.otherwise);
  pending.directory = std::exchange(pending.otherwise, {});
  ask_again_ = true;
  return true;
}

// If a round has begun meanwhile, all checkpoints are requested again after Go.
void IntraJobCore::ask_elsewhere() {
  const bool stepping = phase_ == Phase::kNormal || phase_ == Phase::kDraining;
  if (std::exchange(ask_again_, false) && stepping) ask_for_checkpoints();
}

// The job continues without this checkpoint. The previous one is untouched, and the next one may
// succeed.
void IntraJobCore::periodic_failed(const std::string& why) {
  const Version version = std::max(periodic_.pending()->at, ledger_.through());
  write_warning_ = "no checkpoint of version " + std::to_string(version) + ": " + why;
  log("warning: " + write_warning_);
  periodic_.settle(version);
  ask_for_periodic();
}

// A checkpoint is valid only if the ledger contains its version. Ledger lines can be late after the
// head was away. If all workers that know them are lost, the checkpoint is lost too.
void IntraJobCore::take_written_checkpoints() {
  for (const WrittenCheckpoint& written : std::exchange(written_, {})) {
    if (written.message.version > ledger_.through()) {
      written_.push_back(written);
    } else {
      take_checkpoint(written);
    }
  }
}

void IntraJobCore::take_checkpoint(const WrittenCheckpoint& taken) {
  const CheckpointWritten& message = taken.message;
  const bool periodic = periodic_.is_pending(message.request);
  const CheckpointRef written{
      message.path, message.version, periodic, {taken.node}, message.digests};
  log("worker " + std::to_string(message.stamp.sender.value) + " wrote checkpoint " + written.path +
      " of version " + std::to_string(written.version) + " on node " + taken.node);
  const std::vector<std::string> removed =
      periodic ? periodic_.pending()->remove : std::vector<std::string>();
  remove_replaced(written, removed);
  add_checkpoint(record_, written, removed);
  const bool suspension = is_suspension(written, config_.suspend_prefix);
  // A client may remove its own checkpoints at any time. A suspension checkpoint stays until a
  // newer one of the job replaces it.
  const bool replaced = (periodic || suspension) && record_.checkpoint->path == written.path &&
                        drop_suspensions(record_, config_.suspend_prefix, written.path);
  save();
  // Nodes remove old suspension checkpoints only after the record without them is durable.
  if (replaced || suspension) keep_suspensions();
  if (!periodic) {
    const auto error = first_errors_.extract(message.request);
    CheckpointTaken taken{written, message.digests};
    if (!error.empty()) taken.first_error = error.mapped();
    checkpoint_done(message.request, std::move(taken));
    return;
  }
  if (!write_warning_.empty()) log("checkpoints are written again");
  write_warning_.clear();
  periodic_.settle(written.version);
  ask_for_periodic();
}

// REQUIRES: the record is saved.
void IntraJobCore::keep_suspensions() {
  for (const std::string& node : saved_.nodes()) keep_suspensions(node);
}

// The bound on the generation protects a checkpoint that is written while this message is on its
// way.
void IntraJobCore::keep_suspensions(const std::string& node) {
  if (config_.suspend_prefix.empty() || record_.generation.value == 0) return;
  const std::uint64_t below = phase_ == Phase::kEnding ? std::numeric_limits<std::uint64_t>::max()
                                                       : record_.generation.value;
  std::vector<std::string> kept = suspensions(record_, config_.suspend_prefix);
  kept.insert(kept.end(), record_.set_aside.begin(), record_.set_aside.end());
  effects_.push_back(KeepSuspensions{node, below, std::move(kept)});
}

// These checkpoints are about to be dropped, and nodes that are away learn it only when they
// return.
void IntraJobCore::say_which_suspensions_stay() {
  std::vector<CheckpointRef> away;
  for (CheckpointRef state : saved_states()) {
    std::erase_if(state.nodes, [this](const auto& node) { return saved_.nodes().contains(node); });
    if (is_suspension(state, config_.suspend_prefix)) away.push_back(std::move(state));
  }
  remove_from_nodes(away);
}

// Removes the states from all their nodes but `but`. REQUIRES: the record is saved.
void IntraJobCore::remove_from_nodes(const std::vector<CheckpointRef>& states,
                                     const std::string& but) {
  std::map<std::string, std::vector<CheckpointRef>> by_node;
  for (const CheckpointRef& state : states)
    for (const std::string& node : state.nodes)
      if (node != but) by_node[node].push_back(state);
  for (const auto& [node, on_it] : by_node) {
    if (saved_.nodes().contains(node)) {
      effects_.push_back(RemoveCheckpoints{node, on_it});
      continue;
    }
    for (const CheckpointRef& state : on_it)
      log("warning: a checkpoint that is not wanted any more stays: " + state.path + " on node " +
          node + ", which is away");
  }
}

// The writer removes the files on its own disk. A void checkpoint with the same path and other
// digests lies on another disk.
void IntraJobCore::remove_replaced(const CheckpointRef& written,
                                   const std::vector<std::string>& removed) {
  std::vector<CheckpointRef> states;
  const auto consider = [&](const CheckpointRef& state) {
    if (std::ranges::find(removed, state.path) != removed.end()) states.push_back(state);
  };
  std::ranges::for_each(record_.older, consider);
  for (const CheckpointRef& state : record_.spoiled) {
    consider(state);
    if (state.path == written.path && state.digests != written.digests) states.push_back(state);
  }
  remove_from_nodes(states, *written.nodes.begin());
}

std::string IntraJobCore::warning() const {
  if (write_warning_.empty() || damage_warning_.empty()) return write_warning_ + damage_warning_;
  return damage_warning_ + "; " + write_warning_;
}

}  // namespace es::actors::intra_job
