// WorkerCore: a job with sharded state. Owner and buddy of a bucket hold its moments, and only they
// compute its new parameters.
//
// A step: the owner sums a bucket and sends the sum to the buddy. The buddy copies it and tells all
// members (Complete). A member that knows this of every bucket updates its shards, owners send the
// new parameters to those that do not hold the bucket (Updated), and a member that has all of them
// commits. Between its update and its commit a member is *ahead*: its shards are those of the next
// version, its other parameters are not. No member is ahead before every sum exists twice. A member
// that is alone steps as in a job without shards.
//
// A round: if a member is ahead or has committed, the target is the version that it goes to.
// Holders that have only the sum make their shards first, and members then fetch what they miss.
#include <algorithm>
#include <utility>

#include "actors/worker/core/worker_core.h"

namespace es::actors::worker {

using namespace protocol;

namespace {

bool contains_all(const std::set<std::uint32_t>& held, const std::vector<std::uint32_t>& wanted) {
  return std::ranges::all_of(wanted, [&](std::uint32_t bucket) { return held.contains(bucket); });
}

}  // namespace

bool WorkerCore::is_own(std::uint32_t bucket) const {
  const Holders& holders = install_.holders[bucket];
  return holders.owner == config_.self || holders.buddy == config_.self;
}

std::vector<std::uint32_t> WorkerCore::own_shards() const {
  std::vector<std::uint32_t> own;
  for (std::uint32_t bucket = 0; bucket < install_.bucket_count; ++bucket)
    if (is_own(bucket)) own.push_back(bucket);
  return own;
}

std::vector<std::uint32_t> WorkerCore::buckets_besides(const std::set<std::uint32_t>& some) const {
  std::vector<std::uint32_t> others;
  for (std::uint32_t bucket = 0; bucket < install_.bucket_count; ++bucket)
    if (!some.contains(bucket)) others.push_back(bucket);
  return others;
}

// --- a step --------------------------------------------------------------------------------------

void WorkerCore::hold_sum(const Reduced& reduced) {
  held_sums_.insert_or_assign(reduced.bucket, reduced);
  send_peer(*member(install_.holders[reduced.bucket].buddy), reduced);
}

void WorkerCore::on_sum_held(const SumHeld& event) {
  if (!is_of_this_step(event.sum) || held_sums_.contains(event.sum.bucket)) return;
  held_sums_.emplace(event.sum.bucket, event.sum);
  announce(event.sum, event.squares);
}

void WorkerCore::announce(const Reduced& sum, const Bytes& squares) {
  const Complete complete{.stamp = stamp(),
                          .step = sum.step,
                          .bucket = sum.bucket,
                          .results = sum.results,
                          .drain = sum.drain,
                          .squares = squares};
  for (const Member& peer : install_.members)
    if (peer.incarnation != config_.self) send_peer(peer, complete);
  stage(complete);
  advance();
}

void WorkerCore::on_complete(const Complete& message) {
  if (message.step < *version_) return;
  if (message.step > *version_ || !well_formed(message))
    return anomaly("refused: a Complete of bucket " + std::to_string(message.bucket));
  stage(message);
  advance();
}

// Every part of the sum was read.
void WorkerCore::stage(const Complete& complete) {
  if (!complete_.emplace(complete.bucket, complete).second) return;
  last_progress_ = now_;
  held_up_ = false;  // if there is no room yet, the engine says so again
  effects_.push_back(PartsRead{generation_, complete.step, complete.bucket});
}

// From here on the step is decided: every sum exists twice.
void WorkerCore::start_shard_update() {
  std::vector<std::byte> squares;
  for (const auto& [bucket, complete] : complete_)
    if (complete.squares)
      squares.insert(squares.end(), complete.squares->begin(), complete.squares->end());
  made_ = {complete_.at(0).results,
           squares.empty() ? Bytes()
                           : std::make_shared<const std::vector<std::byte>>(std::move(squares)),
           complete_.at(0).drain};
  // The buckets that this worker owns, unless all members hold them.
  std::vector<std::uint32_t> shared;
  for (std::uint32_t bucket = 0; bucket < install_.bucket_count; ++bucket)
    if (install_.holders[bucket].owner == config_.self && install_.members.size() > 2)
      shared.push_back(bucket);
  make_shards(std::move(shared));
}

void WorkerCore::make_shards(std::vector<std::uint32_t> shared) {
  operation_ = Operation::kUpdate;
  UpdateShards update{.generation = generation_,
                      .step = *version_,
                      .sums = {},
                      .squares = made_.squares,
                      .decisions = decisions_of_update(),
                      .shared = std::move(shared)};
  for (const auto& [bucket, sum] : held_sums_) update.sums.push_back(sum);
  effects_.push_back(std::move(update));
}

void WorkerCore::on_shards_updated(const ShardsUpdated& event) {
  if (operation_ != Operation::kUpdate || event.step != version_) return;
  ahead_ = true;
  held_sums_.clear();
  last_progress_ = now_;
  if (end_operation()) return;
  if (phase_ != Phase::kActive) {
    // In a round: the shards of the target are made.
    reconsider_fetches();
    if (!ranks_.empty()) fetch_missing_shards();
    return;
  }
  for (Updated updated : event.parameters) {
    const Holders& holders = install_.holders[updated.bucket];
    updated.stamp = stamp();
    for (const Member& peer : install_.members)
      if (peer.incarnation != holders.owner && peer.incarnation != holders.buddy)
        send_peer(peer, updated);
  }
  advance();
}

bool WorkerCore::well_formed(const Updated& message) const {
  return sharded() && message.bucket < install_.bucket_count && !is_own(message.bucket) &&
         install_.holders[message.bucket].owner == message.stamp.sender;
}

// It may arrive before this worker is ahead itself.
void WorkerCore::on_updated(const Updated& message) {
  if (message.step < *version_) return;
  if (message.step > *version_ || !well_formed(message))
    return anomaly("refused: an Updated of bucket " + std::to_string(message.bucket));
  if (updated_.emplace(message.bucket, message).second) last_progress_ = now_;
  advance();
}

void WorkerCore::start_shard_commit() {
  if (updated_.size() + held_.size() != install_.bucket_count) return;
  operation_ = Operation::kUpdate;
  CommitShards commit{.generation = generation_,
                      .step = *version_,
                      .parameters = {},
                      .results = made_.results,
                      .last = may_be_last(*version_ + 1)};
  for (const auto& [bucket, updated] : updated_) commit.parameters.push_back(updated);
  effects_.push_back(std::move(commit));
}

// --- a round -------------------------------------------------------------------------------------

// Whether what this worker holds is of this version.
bool WorkerCore::has_reached(Version version) const {
  return version_ && *version_ + (ahead_ ? 1 : 0) == version;
}

// Whether a sealed worker will hold shards of this version in this generation.
bool WorkerCore::may_reach(Version version) const {
  return !installed_ || install_.target == version;
}

void WorkerCore::install_shards() {
  const bool is_member = !ranks_.empty();
  if (!std::holds_alternative<FromPeer>(install_.source)) {
    // No version can be put together any more. What this worker holds is worth nothing.
    version_.reset();
    ahead_ = false;
    held_.clear();
    held_sums_.clear();
    made_ = {};
    lines_.clear();
    evaluations_.clear();
    if (is_member) load_target();
    return;
  }
  if (has_reached(install_.target)) {
    held_sums_.clear();
    reconsider_fetches();
    if (is_member) fetch_missing_shards();
    return;
  }
  const bool has_all_sums = version_ && *version_ + 1 == install_.target &&
                            held_sums_.size() == held_.size() && !held_.empty();
  if (has_all_sums) {
    // Others are ahead. This worker makes its shards, too; it needs the norm of the gradient.
    makes_shards_ = true;
    if (is_member) phase_ = Phase::kLoading;
    last_progress_ = now_;
    fetch(std::get<FromPeer>(install_.source), {.rest = true});
    return;
  }
  if (version_ && *version_ > install_.target) {
    abort("holds version " + std::to_string(*version_) + ", newer than the target " +
          std::to_string(install_.target) + " of generation " + std::to_string(generation_.value));
    return;
  }
  version_.reset();
  held_.clear();
  held_sums_.clear();
  if (is_member) fetch_missing_shards();
}

void WorkerCore::fetch(const FromPeer& from, FetchShards wanted) {
  wanted.stamp = stamp();
  wanted.version = install_.target;
  wanted.address = config_.address;
  wanted.host_id = config_.host_id;
  pieces_awaited_.insert(from.incarnation);
  effects_.push_back(SendPeer{from.incarnation, from.address, from.host_id, std::move(wanted)});
}

// REQUIRES: the shards here, if any, are those of the target.
void WorkerCore::fetch_missing_shards() {
  const bool whole = version_ == install_.target;
  std::map<Incarnation, std::pair<FromPeer, FetchShards>> wanted;
  const auto ask = [&](const FromPeer& from) -> FetchShards& {
    return wanted.try_emplace(from.incarnation, from, FetchShards{}).first->second.second;
  };
  for (std::uint32_t bucket = 0; bucket < install_.bucket_count; ++bucket) {
    const FromPeer& source = install_.shard_sources[bucket];
    if (!whole && !held_.contains(bucket)) ask(source).parameters.push_back(bucket);
    if (is_own(bucket) && !held_.contains(bucket)) ask(source).moments.push_back(bucket);
  }
  if (!version_) {
    FetchShards& first = ask(std::get<FromPeer>(install_.source));
    first.rest = first.frozen = true;
  }
  if (whole && wanted.empty()) return report_ready();
  phase_ = Phase::kLoading;
  last_progress_ = now_;
  for (auto& [incarnation, request] : wanted) fetch(request.first, std::move(request.second));
  if (wanted.empty()) load_pieces();
}

void WorkerCore::on_shards(const Shards& message) {
  if (take_gathered(message)) return;
  const bool wanted = operation_ == Operation::kNone && !stalled_ && sharded() &&
                      message.version == install_.target &&
                      pieces_awaited_.contains(message.stamp.sender);
  if (!wanted) return;
  if (message.rest && message.contexts.size() != config_.max_p)
    return anomaly("Shards with " + std::to_string(message.contexts.size()) + " contexts");
  pieces_awaited_.erase(message.stamp.sender);
  last_progress_ = now_;
  if (message.rest) {
    made_ = {{}, message.squares, message.drain};
    for (VirtualRank rank = 0; rank < message.losses.size(); ++rank)
      made_.results.push_back({rank, message.losses[rank], message.contexts[rank]});
    loading_lines_ = message.unacknowledged;
  }
  if (std::exchange(makes_shards_, false)) return make_shards();
  pieces_.push_back(message);
  if (pieces_awaited_.empty()) load_pieces();
}

void WorkerCore::load_pieces() {
  operation_ = Operation::kLoad;
  std::set<std::uint32_t> held = held_;
  for (const std::uint32_t bucket : own_shards()) held.insert(bucket);
  LoadShards load{.generation = generation_,
                  .version = install_.target,
                  .held = {held.begin(), held.end()},
                  .from_nothing = !version_,
                  .pieces = std::exchange(pieces_, {}),
                  .contexts = {},
                  .losses = {},
                  .last = may_be_last(install_.target),
                  .decisions = decisions_};
  // A worker that has the whole version already has its contexts and its line.
  if (version_ != install_.target) {
    for (const RankResult& result : made_.results) {
      load.contexts.push_back(result.context);
      load.losses.push_back(result.loss_bits);
    }
    for (const Shards& piece : load.pieces)
      if (piece.rest) load.contexts = piece.contexts;
  }
  effects_.push_back(std::move(load));
}

// --- what others fetch ---------------------------------------------------------------------------

void WorkerCore::on_fetch_shards(const FetchShards& message) {
  const bool wants_nothing =
      message.parameters.empty() && message.moments.empty() && !message.rest && !message.frozen;
  if (wants_nothing) {
    effects_.push_back(DropShards{message.stamp.sender, message.version});
    return;
  }
  const bool sealed = phase_ != Phase::kActive && phase_ != Phase::kPaused;
  const bool here = has_reached(message.version) && contains_all(held_, message.moments) &&
                    (!ahead_ || contains_all(held_, message.parameters));
  if (here && operation_ == Operation::kNone && (sealed || !ahead_)) {
    effects_.push_back(ExportShards{generation_, message});
  } else if (sealed ? may_reach(message.version) : message.version > *version_) {
    fetches_waiting_.push_back(message);
  } else if (!sealed) {
    // A member that writes a checkpoint asks before it contributes to the next step, except if it
    // waits for a decision. Then this worker may have gone on.
    Shards gone{.stamp = stamp(), .version = message.version};
    effects_.push_back(
        SendPeer{message.stamp.sender, message.address, message.host_id, std::move(gone)});
  } else {
    anomaly("FetchShards of version " + std::to_string(message.version) +
            ", which this worker does not hold sealed");
  }
}

void WorkerCore::reconsider_fetches() {
  for (const FetchShards& fetch : std::exchange(fetches_waiting_, {})) on_fetch_shards(fetch);
}

void WorkerCore::on_shards_exported(const ShardsExported& event) {
  if (event.generation != generation_) return;
  Shards shards = event.shards;
  shards.stamp = stamp();
  if (shards.rest) {
    if (ahead_ && shards.version == *version_ + 1) shards.contexts.clear();
    for (const RankResult& result : made_.results) {
      shards.losses.push_back(result.loss_bits);
      if (ahead_ && shards.version == *version_ + 1) shards.contexts.push_back(result.context);
    }
    shards.squares = made_.squares;
    shards.drain = made_.drain;
    for (const auto& [version, line] : lines_) shards.unacknowledged.push_back(line);
  }
  const FetchShards& wanted = event.wanted;
  effects_.push_back(
      SendPeer{wanted.stamp.sender, wanted.address, wanted.host_id, std::move(shards)});
}

// --- the whole state of a version ----------------------------------------------------------------

void WorkerCore::keep_line(const LedgerLine& line) {
  if (line.state) lines_[line.version] = line;
  const LedgerLine& kept = lines_.emplace(line.version, line).first->second;
  if (may_be_last(line.version) && !kept.state) line_without_state_ = line;
}

// The member with rank 0 completes the line of a version that may be the last one.
void WorkerCore::complete_line() {
  const bool wanted = line_without_state_ && line_without_state_->version == version_ &&
                      install_.acknowledged_through < *version_ && ranks_.contains(0);
  if (!wanted) return;
  effects_.push_back(DigestState{generation_, *version_});
  gather_shards();
}

void WorkerCore::on_state_digested(const StateDigested& event) {
  if (event.generation != generation_ || !line_without_state_ ||
      line_without_state_->version != event.version)
    return;
  LedgerLine line = *std::exchange(line_without_state_, std::nullopt);
  line.state = event.state;
  lines_[line.version] = line;
  send_head(Committed{stamp(), line});
}

// Asks the owners for the moments that are not here. They answer before their next update, because
// they receive the request before this worker's contribution to it. `asked`: what waits for them.
void WorkerCore::gather_shards(std::optional<WriteCheckpoint> asked) {
  if (!sharded() || held_.size() == install_.bucket_count) return;
  const auto [gathering, is_new] = gathering_.try_emplace(*version_);
  if (asked) gathering->second.asked.push_back(*asked);
  if (!is_new) return supply_gathered(*version_);
  std::map<Incarnation, FetchShards> wanted;
  for (const std::uint32_t bucket : buckets_besides(held_))
    wanted[owner_of(bucket).incarnation].moments.push_back(bucket);
  for (auto& [owner, request] : wanted) {
    gathering->second.owners.insert(owner);
    request.version = *version_;
    ask_owner(owner, std::move(request));
  }
}

std::set<Incarnation> WorkerCore::Gathering::awaited() const {
  std::set<Incarnation> left = owners;
  for (const Shards& piece : pieces) left.erase(piece.stamp.sender);
  return left;
}

// A link that broke may have lost the request or the answer, while the steps go on.
void WorkerCore::suspect_owners() {
  for (const auto& [version, gathering] : gathering_)
    for (const Incarnation owner : gathering.awaited()) {
      const auto broken = gathering.broken.find(owner);
      const bool in_vain =
          broken != gathering.broken.end() && now_ - broken->second > config_.link_timeout;
      if (in_vain && !suspected_) suspect(owner);
    }
}

// Gives the engine all pieces, if they are there.
void WorkerCore::supply_gathered(Version version) {
  Gathering& gathering = gathering_.at(version);
  if (!gathering.complete()) return;
  effects_.push_back(SupplyShards{generation_, version, gathering.pieces});
  ++gathering.supplies;
}

void WorkerCore::ask_owner(Incarnation owner, FetchShards wanted) {
  wanted.stamp = stamp();
  wanted.address = config_.address;
  wanted.host_id = config_.host_id;
  send_peer(*member(owner), std::move(wanted));
}

// Returns whether the message is an answer to gather_shards().
bool WorkerCore::take_gathered(const Shards& message) {
  const auto found = gathering_.find(message.version);
  if (found == gathering_.end() || !found->second.awaited().contains(message.stamp.sender))
    return false;
  Gathering& gathering = found->second;
  gathering.pieces.push_back(message);
  if (message.moments.empty()) {
    // The owner has gone on meanwhile. The next version will do as well.
    forget_begun(gathering.asked);
    for (const WriteCheckpoint& asked : gathering.asked) checkpoints_asked_[asked.request] = asked;
    effects_.push_back(SupplyShards{generation_, message.version, {}});
    gathering_.erase(found);
  } else {
    supply_gathered(message.version);
  }
  return true;
}

// Owners keep what they have sent until they hear that it was taken.
void WorkerCore::on_shards_taken(const ShardsTaken& event) {
  const auto found = gathering_.find(event.version);
  if (event.generation != generation_ || found == gathering_.end()) return;
  if (--found->second.supplies > 0) return;
  for (const Incarnation owner : found->second.owners)
    ask_owner(owner, FetchShards{.version = event.version});
  gathering_.erase(found);
}

void WorkerCore::forget_begun(const std::vector<WriteCheckpoint>& asked) {
  for (const WriteCheckpoint& one : asked) checkpoints_begun_.erase({one.request, one.directory});
}

}  // namespace es::actors::worker
