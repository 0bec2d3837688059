// WorkerCore: the round (Prepare, Report, Install, Ready, Go) and the other messages of the head.
#include <utility>

#include "actors/worker/core/worker_core.h"

namespace es::actors::worker {

using namespace protocol;

void WorkerCore::on_prepare(const Prepare& message) {
  // A Prepare that waits for an operation is already promised. A repeated or older one must not
  // replace it.
  const Generation promised = prepare_pending_.value_or(generation_);
  if (message.stamp.generation <= promised) return;
  prepare_pending_ = message.stamp.generation;
  // An update or load that has begun is never interrupted. It ends first, and the report contains
  // the version that it made.
  if (operation_ == Operation::kNone) seal();
}

void WorkerCore::seal() {
  generation_ = *std::exchange(prepare_pending_, std::nullopt);
  // A failed worker repeats its failure under the new generation, since the first message may have
  // been lost.
  if (phase_ == Phase::kFailed) {
    send_head(Failed{stamp(), failure_, elsewhere_});
    return;
  }
  // Everything of the old generation is discarded here: contributions, staged sums, early messages,
  // and requests. The version stays, and so do the ledger lines and evaluations that the head has
  // not acknowledged, because no other process may have them.
  phase_ = Phase::kSealed;
  installed_ = drain_wanted_ = drain_agreed_ = evaluating_ = stalled_ = suspected_ = false;
  install_ = {};
  ranks_ = {};
  routes_.clear();
  audit_passed_.reset();
  audit_asked_.reset();
  decided_.clear();
  checkpoints_asked_.clear();
  waiting_.clear();
  loading_lines_.clear();
  fetches_.clear();
  fetches_waiting_.clear();
  pieces_.clear();
  pieces_awaited_.clear();
  makes_shards_ = false;
  // What has not been gathered is not written. The head asks again.
  for (const auto& [version, gathering] : gathering_) forget_begun(gathering.asked);
  gathering_.clear();
  broken_links_.clear();
  reset_step();
  // The device half and the transports abandon the old generation before the report leaves this
  // worker. After the report nothing older may be counted.
  effects_.push_back(AbandonGenerations{generation_});
  tell_evaluations();
  Report report{.stamp = stamp(), .version = version_, .held = held_shards(), .ahead = ahead_};
  for (const auto& [bucket, sum] : held_sums_) report.summed.push_back(bucket);
  send_head(std::move(report));
}

// Sends the evaluations before the report. If this worker gets no ranks in this round, it is
// released, and no other worker knows them.
void WorkerCore::tell_evaluations() {
  for (auto& [version, evaluation] : evaluations_) {
    // The head drops messages of older generations, so the evaluation gets the new one.
    evaluation.stamp = stamp();
    send_head(evaluation);
  }
}

void WorkerCore::on_install(const Install& message) {
  if (message.stamp.generation != generation_ || phase_ != Phase::kSealed || installed_) return;
  installed_ = true;
  install_ = message;
  forget_lines_through(message.acknowledged_through);
  evaluations_.erase(evaluations_.begin(), evaluations_.upper_bound(message.evaluated_through));
  decisions_ = message.decisions;
  const Member* self = member(config_.self);
  if (self != nullptr) {
    ranks_ = self->ranks;
    plan_routes();
  }
  if (sharded()) return install_shards();
  if (self == nullptr) return;  // it waits as a possible source until Release
  if (version_ == message.target) {
    report_ready();
  } else if (version_ && *version_ > message.target) {
    // The head chooses a target that no member exceeds, so this is an error of the program.
    abort("holds version " + std::to_string(*version_) + ", newer than the target " +
          std::to_string(message.target) + " of generation " + std::to_string(generation_.value));
  } else {
    load_target();
  }
}

void WorkerCore::load_target() {
  phase_ = Phase::kLoading;
  last_progress_ = now_;
  if (const auto* peer = std::get_if<FromPeer>(&install_.source)) {
    Fetch fetch{stamp(), install_.target, config_.address, config_.host_id};
    effects_.push_back(SendPeer{peer->incarnation, peer->address, peer->host_id, std::move(fetch)});
    return;
  }
  LoadVersion load{.generation = generation_,
                   .version = install_.target,
                   .from = FromSeed{},
                   .decisions = decisions_};
  if (sharded()) load.held = own_shards();
  if (const auto* checkpoint = std::get_if<FromCheckpoint>(&install_.source)) {
    // The checkpoint is on the disk of another node, so its files are fetched first. operation_
    // stays kNone meanwhile: a Prepare may interrupt the fetch, because the replica is not touched
    // yet.
    if (!checkpoint->node.empty()) {
      effects_.push_back(PullState{generation_, *checkpoint});
      return;
    }
    load.from = *checkpoint;
  }
  operation_ = Operation::kLoad;
  effects_.push_back(std::move(load));
}

// Returns whether a checkpoint on another node's disk is still being fetched.
bool WorkerCore::pulls(Generation generation) const {
  const auto* checkpoint = std::get_if<FromCheckpoint>(&install_.source);
  return generation == generation_ && phase_ == Phase::kLoading && !stalled_ &&
         operation_ == Operation::kNone && checkpoint != nullptr && !checkpoint->node.empty();
}

void WorkerCore::on_pull_progress(const PullProgress& event) {
  if (pulls(event.generation)) last_progress_ = now_;
}

void WorkerCore::on_state_pulled(const StatePulled& event) {
  if (!pulls(event.generation)) return;
  operation_ = Operation::kLoad;
  effects_.push_back(LoadVersion{.generation = generation_,
                                 .version = install_.target,
                                 .from = std::get<FromCheckpoint>(install_.source),
                                 .copy = event.copy,
                                 .decisions = decisions_,
                                 .held = sharded() ? std::optional(own_shards()) : std::nullopt});
}

// As after CheckpointDamaged, the head chooses another source in a new round.
void WorkerCore::on_pull_failed(const PullFailed& event) {
  if (!pulls(event.generation)) return;
  stalled_ = true;
  send_head(CheckpointUnreadable{stamp(), std::get<FromCheckpoint>(install_.source).path,
                                 event.error, event.gone});
}

void WorkerCore::give_up_pull() {
  const auto& from = std::get<FromCheckpoint>(install_.source);
  on_pull_failed({generation_, from.path + ": node " + from.node + " has sent nothing for " +
                                   std::to_string(config_.pull_timeout / std::chrono::seconds(1)) +
                                   " s"});
}

void WorkerCore::on_state(const State& message) {
  const auto* source = std::get_if<FromPeer>(&install_.source);
  // A State may be late: from another source, for another target, or a second one while the first
  // is being loaded. It is ignored then.
  const bool wanted = phase_ == Phase::kLoading && operation_ == Operation::kNone && !stalled_ &&
                      message.version == install_.target && source != nullptr &&
                      source->incarnation == message.stamp.sender;
  if (!wanted) return;
  if (message.contexts.size() != config_.max_p) {
    anomaly("State with " + std::to_string(message.contexts.size()) + " contexts");
    return;
  }
  operation_ = Operation::kLoad;
  // The lines of the source travel with the version. The source may die before the head has them,
  // and then a worker that continues from the version can still send them.
  loading_lines_ = message.unacknowledged;
  effects_.push_back(LoadVersion{.generation = generation_,
                                 .version = message.version,
                                 .from = message,
                                 .decisions = decisions_});
}

void WorkerCore::on_fetch(const Fetch& message) {
  // An active member may be changing its parameters, so it serves no version. The head lets no
  // member start before all have reported Ready, so a correct peer does not ask then.
  const bool sealed = phase_ != Phase::kActive && phase_ != Phase::kPaused;
  if (!sealed || operation_ != Operation::kNone || version_ != message.version) {
    anomaly("Fetch of version " + std::to_string(message.version) +
            ", which this worker does not hold sealed");
    return;
  }
  // The export runs on the device half, and a new generation may begin meanwhile. seal() clears
  // fetches_, and VersionExported is then ignored.
  fetches_[message.stamp.sender] = message;
  effects_.push_back(ExportVersion{generation_, message.stamp.sender});
}

void WorkerCore::on_version_exported(const VersionExported& event) {
  const auto fetch = fetches_.find(event.to);
  if (event.generation != generation_ || fetch == fetches_.end()) return;
  State state = event.state;
  state.stamp = stamp();
  for (const auto& [version, line] : lines_) state.unacknowledged.push_back(line);
  effects_.push_back(
      SendPeer{event.to, fetch->second.address, fetch->second.host_id, std::move(state)});
  fetches_.erase(fetch);
}

// The event has no generation, because a load is never cut short: operation_ shows that it is
// awaited. A Prepare that arrived meanwhile is obeyed now, and its report contains the new version.
void WorkerCore::on_version_loaded(const VersionLoaded& event) {
  if (operation_ != Operation::kLoad) return;
  version_ = event.version;
  for (const LedgerLine& line : loading_lines_) lines_.emplace(line.version, line);
  if (event.line) keep_line(*event.line);
  if (sharded()) {
    ahead_ = false;
    held_sums_.clear();
    for (const std::uint32_t bucket : own_shards()) held_.insert(bucket);
  }
  forget_lines_through(install_.acknowledged_through);
  if (!end_operation()) report_ready();
}

bool WorkerCore::end_operation() {
  operation_ = Operation::kNone;
  if (!prepare_pending_) return false;
  seal();
  return true;
}

void WorkerCore::report_ready() {
  phase_ = Phase::kReady;
  send_head(Ready{stamp(), *version_});
  // The others may need shards that were not here before.
  reconsider_fetches();
}

void WorkerCore::on_go(const Go& message) {
  if (message.stamp.generation != generation_ || phase_ != Phase::kReady) return;
  phase_ = Phase::kActive;
  last_progress_ = now_;
  if (sharded()) {
    // All members have what they need, so no worker needs the shards that moved away.
    const std::vector<std::uint32_t> kept = own_shards();
    if (kept != held_shards()) effects_.push_back(KeepShards{kept});
    held_ = {kept.begin(), kept.end()};
    held_sums_.clear();
  }
  // Lines of earlier generations may not have reached the head; it ignores repetitions.
  for (const auto& [version, line] : lines_) send_head(Committed{stamp(), line});
  complete_line();
  // Peers that got Go earlier may have sent parts already. They are counted now, because
  // must_wait() no longer holds them back.
  reconsider_waiting();
  advance();
}

// The generation may be one whose Prepare still waits for an operation. The worker is no longer
// needed, so it does not wait for the operation to end.
void WorkerCore::on_release(const Release& message) {
  if (message.stamp.generation < generation_) return;
  phase_ = Phase::kExited;
  effects_.push_back(Exit{});
}

void WorkerCore::on_drain(const Drain& message) {
  if (message.stamp.generation == generation_ && phase_ == Phase::kActive) drain_wanted_ = true;
}

// The evaluation of a version is sent before the next step begins, so an acknowledged later version
// covers it. The evaluation of version `through` itself is not covered.
void WorkerCore::on_acknowledge(const Acknowledge& message) {
  if (message.stamp.generation != generation_) return;
  forget_lines_through(message.through);
  evaluations_.erase(evaluations_.begin(), evaluations_.lower_bound(message.through));
}

void WorkerCore::on_write_checkpoint(const WriteCheckpoint& message) {
  if (message.stamp.generation != generation_ || phase_ == Phase::kFailed) return;
  // The head asks again after each round, because it cannot know whether the request has arrived. A
  // checkpoint that was begun is not written twice, unless it has failed.
  if (checkpoints_begun_.contains({message.request, message.directory})) return;
  checkpoints_asked_[message.request] = message;
  // In these states no commit follows, or none before a decision, which may wait for this
  // checkpoint. So the request is served at once. Otherwise it is served at the next commit, when
  // the version is whole and no update runs.
  const bool stays =
      phase_ == Phase::kPaused || (phase_ == Phase::kActive && (at_last() || decision_holds()));
  if (stays) write_checkpoints();
}

void WorkerCore::write_checkpoints() {
  for (const auto& [request, asked] : std::exchange(checkpoints_asked_, {})) {
    // A checkpoint of the job's own series has a version at which it is due. It waits until that
    // version is reached.
    if (asked.at > *version_) {
      checkpoints_asked_.emplace(request, asked);
      continue;
    }
    checkpoints_begun_.emplace(request, asked.directory);
    effects_.push_back(WriteVersion{request, asked.directory, asked.periodic, asked.make_parent});
    gather_shards(asked);
  }
}

void WorkerCore::on_checkpoint_finished(const CheckpointFinished& event) {
  if (!event.error.empty()) checkpoints_begun_.erase({event.request, event.path});
  send_head(CheckpointWritten{.stamp = stamp(),
                              .request = event.request,
                              .path = event.path,
                              .version = event.version,
                              .digests = event.digests,
                              .error = event.error,
                              .error_kind = event.error_kind,
                              .seconds = event.seconds});
}

// The head chooses another source in a new round.
void WorkerCore::on_checkpoint_damaged(const CheckpointDamaged& event) {
  // If a Prepare has waited for the load, the new round chooses a source anyway, so the damage is
  // not reported.
  if (event.generation != generation_ || end_operation()) return;
  stalled_ = true;
  send_head(CheckpointUnreadable{stamp(), event.path, event.error, event.gone});
}

void WorkerCore::on_engine_failed(const EngineFailed& event) {
  // The failure is final for this worker. If a Prepare waits, seal() sends the failure under the
  // new generation.
  phase_ = Phase::kFailed;
  failure_ = event.error;
  elsewhere_ = event.elsewhere;
  if (!end_operation()) send_head(Failed{stamp(), failure_, elsewhere_});
}

}  // namespace es::actors::worker
