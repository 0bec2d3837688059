// WorkerCore: one global step and its commit.
#include <algorithm>
#include <utility>

#include "actors/base/protocol/core/decisions.h"
#include "actors/worker/core/worker_core.h"
#include "proto/base/overloaded.h"

namespace es::actors::worker {

using namespace protocol;

namespace {

bool results_cover(const std::vector<RankResult>& results, RankRange range) {
  if (results.size() != range.size()) return false;
  VirtualRank rank = range.begin;
  for (const RankResult& result : results) {
    // The results must be those of exactly these ranks, in order. The update takes those of all
    // ranks in this order as the next contexts.
    if (result.rank != rank++ || result.context == nullptr) return false;
  }
  return true;
}

std::string describe(const char* what, const Stamp& stamp, Version step, std::uint32_t bucket) {
  return std::string(what) + " of step " + std::to_string(step) + ", bucket " +
         std::to_string(bucket) + ", generation " + std::to_string(stamp.generation.value) +
         " from worker " + std::to_string(stamp.sender.value);
}

}  // namespace

// Drops messages of older generations and holds back those that are early. The remaining messages
// are handled in the running step.
void WorkerCore::take(const PeerMessage& message) {
  const Stamp& stamp = stamp_of(message);
  if (stamp.generation < generation_) return;
  if (stamp.generation > generation_) {
    // The head sends Install only after all workers have promised its generation, so a correct peer
    // cannot send this.
    anomaly("message of generation " + std::to_string(stamp.generation.value) +
            ", but only generation " + std::to_string(generation_.value) + " is promised");
    return;
  }
  if (must_wait(message)) {
    waiting_.push_back(message);
    return;
  }
  std::visit(
      Overloaded{[&](const Contrib& m) { on_contrib(m); }, [&](const Reduced& m) { on_reduced(m); },
                 [&](const Fetch& m) { on_fetch(m); }, [&](const State& m) { on_state(m); },
                 [&](const Complete& m) { on_complete(m); },
                 [&](const Updated& m) { on_updated(m); },
                 [&](const FetchShards& m) { on_fetch_shards(m); },
                 [&](const Shards& m) { on_shards(m); }},
      message);
}

// Before this worker is active, every step message waits: a peer may get Go earlier than this
// worker. Peers are at most one step ahead.
bool WorkerCore::must_wait(const PeerMessage& message) const {
  const auto early = [this](Version step) {
    return phase_ != Phase::kActive || step == *version_ + 1;
  };
  if (const auto* contrib = std::get_if<Contrib>(&message)) return early(contrib->step);
  if (const auto* reduced = std::get_if<Reduced>(&message)) return early(reduced->step);
  if (const auto* complete = std::get_if<Complete>(&message)) return early(complete->step);
  if (const auto* updated = std::get_if<Updated>(&message)) return early(updated->step);
  return false;
}

void WorkerCore::reconsider_waiting() {
  for (const PeerMessage& message : std::exchange(waiting_, {})) take(message);
}

void WorkerCore::on_contrib(const Contrib& message) {
  if (message.step < *version_) return;  // a repetition; this step is committed
  if (message.step > *version_ || !well_formed(message)) {
    anomaly("refused: " + describe("Contrib", message.stamp, message.step, message.bucket));
    return;
  }
  count(message);
}

void WorkerCore::on_reduced(const Reduced& message) {
  if (message.step < *version_) return;
  if (message.step > *version_ || !well_formed(message)) {
    anomaly("refused: " + describe("Reduced", message.stamp, message.step, message.bucket));
    return;
  }
  if (divided()) {
    // This worker is the buddy. A repetition finds the sum here.
    if (!held_sums_.contains(message.bucket)) effects_.push_back(HoldSum{generation_, message});
    return;
  }
  stage(message);
  advance();
}

bool WorkerCore::well_formed(const Contrib& message) const {
  if (message.bucket >= install_.bucket_count) return false;
  // All members have the same list from Install, so they agree on what is added where. A part is a
  // node of the canonical tree, because only such sums are intermediate results of the one fixed
  // order of additions.
  const PartialSum* sum = sum_with(message, message.stamp.sender);
  if (sum == nullptr || install_.members[sum->at].incarnation != config_.self) return false;
  // Losses and contexts travel with bucket 0 only.
  return message.bucket == 0 ? results_cover(message.results, message.ranks)
                             : message.results.empty();
}

bool WorkerCore::well_formed(const Reduced& message) const {
  if (message.bucket >= install_.bucket_count ||
      owner_of(message.bucket).incarnation != message.stamp.sender) {
    return false;
  }
  if (divided() && install_.holders[message.bucket].buddy != config_.self) return false;
  return message.bucket == 0 ? results_cover(message.results, {0, config_.max_p})
                             : message.results.empty();
}

bool WorkerCore::well_formed(const Complete& message) const {
  if (!divided() || message.bucket >= install_.bucket_count ||
      install_.holders[message.bucket].buddy != message.stamp.sender) {
    return false;
  }
  return message.bucket == 0 ? results_cover(message.results, {0, config_.max_p})
                             : message.results.empty();
}

void WorkerCore::stage(const Reduced& reduced) {
  // A repeated result changes nothing, and it is no progress.
  if (staged_.emplace(reduced.bucket, reduced).second) last_progress_ = now_;
}

// Whether a result of the engine belongs to the step that runs.
bool WorkerCore::is_of_this_step(const auto& result) const {
  return result.stamp.generation == generation_ && phase_ == Phase::kActive &&
         result.step == version_;
}

void WorkerCore::on_bucket_reduced(const BucketReduced& event) {
  if (!is_of_this_step(event.sum)) return;
  const BucketSum& sum = sums_.at({event.sum.bucket, {0, config_.max_p}});
  Reduced reduced = event.sum;
  reduced.stamp = stamp();
  if (reduced.bucket == 0) reduced.results = sum.results();
  reduced.drain = sum.drain();
  if (divided()) return hold_sum(reduced);
  for (const Member& peer : install_.members) {
    if (peer.incarnation != config_.self) send_peer(peer, reduced);
  }
  stage(reduced);
  advance();
}

// Called after every event that may allow the next action. It begins at most one.
void WorkerCore::advance() {
  if (phase_ != Phase::kActive || operation_ != Operation::kNone || stalled_ || evaluating_) return;
  if (ahead_) return start_shard_commit();
  // The pause comes before the evaluation, so that a round does not wait for one. An evaluation
  // that is due at this version follows after the next Go.
  if (pause_is_due()) {
    phase_ = Phase::kPaused;
    send_head(Drained{stamp(), *version_});
  } else if (evaluation_is_due()) {
    evaluating_ = true;
    effects_.push_back(RunEvaluation{generation_, *version_});
  } else if (!at_last() && !steps_started_) {
    start_local_steps();
  } else if (all_staged() && !audit_holds() && !decision_holds()) {
    start_update();
  }
}

bool WorkerCore::pause_is_due() const {
  // A pause is possible only between two steps. After the last version there is no step that could
  // be stopped, but the head may hold the worker before its evaluation.
  if (steps_started_) return false;
  return install_.pause_at == version_ || (drain_agreed_ && !at_last());
}

bool WorkerCore::evaluation_is_due() const {
  const bool known = *version_ <= install_.evaluated_through || evaluations_.contains(*version_);
  // The member with rank 0 evaluates, because an evaluation uses the statistics of rank 0. After a
  // round another member may have this rank, and evaluated_through tells it what the head knows
  // already.
  if (steps_started_ || !ranks_.contains(0) || known) return false;
  return at_last() || (config_.eval_every != 0 && *version_ % config_.eval_every == 0);
}

// The update is issued only when every bucket is staged, and from then on no Prepare can interrupt
// it (operation_).
void WorkerCore::start_update() {
  if (divided()) return start_shard_update();
  operation_ = Operation::kUpdate;
  ApplyUpdate update{.generation = generation_,
                     .step = *version_,
                     .buckets = {},
                     .results = staged_.at(0).results,
                     .last = may_be_last(*version_ + 1),
                     .decisions = decisions_of_update()};
  for (const auto& [bucket, reduced] : staged_) update.buckets.push_back(reduced);
  effects_.push_back(std::move(update));
}

bool WorkerCore::may_be_last(Version version) const {
  return version == install_.last_version ||
         (config_.may_stop && is_decided(version, config_.decided_every));
}

std::string WorkerCore::decisions_of_update() const {
  const auto decided = decided_.find(*version_);
  return decided == decided_.end() ? decisions_ : decided->second;
}

void WorkerCore::on_update_applied(const UpdateApplied& event) {
  if (operation_ != Operation::kUpdate) return;
  ES_CHECK(event.line.version == *version_ + 1);
  // All members read the same flag from the same result, so they agree on the version at which they
  // stop.
  drain_agreed_ = divided() ? made_.drain : staged_.at(0).drain;
  const Instant step = now_ - step_begin_;
  mean_step_ = mean_step_ == Instant{} ? step : (7 * mean_step_ + step) / 8;
  // A peer is at most one step ahead, so a message lost in a break belongs to the step of the break
  // or to the next one. Breaks from before the step that is committed now cannot delay anything any
  // more.
  std::erase_if(broken_links_,
                [this](const auto& entry) { return entry.second.version != version_; });
  if (const auto decided = decided_.find(*version_); decided != decided_.end())
    decisions_ = decided->second;
  version_ = event.line.version;
  ahead_ = false;
  decided_.erase(decided_.begin(), decided_.lower_bound(*version_));
  keep_line(event.line);
  reset_step();
  last_progress_ = now_;
  if (end_operation()) return;  // after the next Go, the ledger line is sent
  send_head(Committed{stamp(), event.line});
  // The version is whole now and the next update cannot begin before advance(), so a checkpoint of
  // exactly this version can be taken.
  write_checkpoints();
  complete_line();
  advance();
  reconsider_fetches();
  reconsider_waiting();
}

void WorkerCore::reset_step() {
  steps_started_ = suspected_ = held_up_ = false;
  own_part_ = {};
  sums_.clear();
  own_ranks_summed_.clear();
  staged_.clear();
  complete_.clear();
  updated_.clear();
}

void WorkerCore::on_evaluation_done(const EvaluationDone& event) {
  if (event.generation != generation_ || !evaluating_) return;
  evaluating_ = false;
  last_progress_ = now_;
  const Evaluated evaluated{.stamp = stamp(), .version = event.version, .totals = event.totals};
  evaluations_[event.version] = evaluated;
  send_head(evaluated);
  advance();
}

void WorkerCore::on_data_unreadable(const DataUnreadable& event) {
  if (event.generation != generation_) return;
  if (end_operation()) return;
  // The data of this step is lost, so the step cannot be completed. Only the round that follows the
  // suspicion helps.
  stalled_ = true;
  suspect(event.of);
}

bool WorkerCore::own_part_is_done() const {
  for (std::uint32_t bucket = 0; bucket < install_.bucket_count; ++bucket)
    if (!own_part_is_done(bucket)) return false;
  return true;
}

bool WorkerCore::own_part_is_done(std::uint32_t bucket) const {
  const auto summed = own_ranks_summed_.find(bucket);
  return summed != own_ranks_summed_.end() && summed->second == ranks_.size();
}

// The peers that this worker waits for after it has done all that it can do.
std::set<Incarnation> WorkerCore::awaited() const {
  std::set<Incarnation> peers;
  if (phase_ == Phase::kLoading && sharded()) return pieces_awaited_;
  if (phase_ == Phase::kLoading) {
    if (const auto* peer = std::get_if<FromPeer>(&install_.source)) peers.insert(peer->incarnation);
  }
  // No step goes on that would show that others live.
  if (phase_ == Phase::kPaused || (phase_ == Phase::kActive && at_last()))
    for (const auto& [version, gathering] : gathering_) peers.merge(gathering.awaited());
  // While its own part runs, this worker itself may be the slow one, so it suspects no other.
  if (phase_ != Phase::kActive || at_last() || !(own_part_is_done() || held_up_)) return peers;
  if (ahead_) {
    for (const std::uint32_t bucket : buckets_besides(held_))
      if (!updated_.contains(bucket)) peers.insert(owner_of(bucket).incarnation);
    return peers;
  }
  if (all_staged()) return awaited_for_audit();
  for (std::uint32_t bucket = 0; bucket < install_.bucket_count; ++bucket) {
    if (divided() ? complete_.contains(bucket) : staged_.contains(bucket)) continue;
    // A worker that is held up waits for the sums of its finished buckets.
    if (!own_part_is_done(bucket)) continue;
    // Others wait for this worker, as long as it misses parts.
    std::set<Incarnation> senders = missing_senders(bucket);
    if (!senders.empty()) {
      peers.merge(senders);
      continue;
    }
    // The buddy speaks for both holders, and waits itself for the owner.
    if (divided() && install_.holders[bucket].buddy != config_.self &&
        (install_.holders[bucket].owner != config_.self || held_sums_.contains(bucket))) {
      peers.insert(install_.holders[bucket].buddy);
      continue;
    }
    if (const Member& owner = owner_of(bucket); owner.incarnation != config_.self)
      peers.insert(owner.incarnation);
  }
  return peers;
}

}  // namespace es::actors::worker
