// WorkerCore: the entry points, time limits, invariants, and small helpers. The round is in
// worker_round.cc, a step in worker_step.cc, and audits in worker_audit.cc.
#include "actors/worker/core/worker_core.h"

#include <algorithm>
#include <utility>

#include "proto/base/overloaded.h"

namespace es::actors::worker {

using namespace protocol;  // most names in this file are of the protocol

Effects WorkerCore::hello() const {
  Hello hello{.stamp = stamp(),
              .device = config_.device,
              .address = config_.address,
              .host_id = config_.host_id,
              .channel = config_.channel,
              .kernels = config_.kernels};
  return {SendHead{std::move(hello)}};
}

Effects WorkerCore::setup_failed(const std::string& error) {
  if (phase_ == Phase::kExited) return {};
  phase_ = Phase::kFailed;
  failure_ = error;
  elsewhere_ = true;  // the head has accepted the job, so something is missing here
  return {SendHead{Failed{stamp(), failure_, elsewhere_}}};
}

Effects WorkerCore::on(const HeadMessage& message, Instant now) {
  now_ = now;
  if (phase_ != Phase::kExited) {
    std::visit(
        Overloaded{[&](const Prepare& m) { on_prepare(m); },
                   [&](const Install& m) { on_install(m); }, [&](const Go& m) { on_go(m); },
                   [&](const Release& m) { on_release(m); }, [&](const Drain& m) { on_drain(m); },
                   [&](const Acknowledge& m) { on_acknowledge(m); },
                   [&](const WriteCheckpoint& m) { on_write_checkpoint(m); },
                   [&](const Audit& m) { on_audit_request(m); },
                   [&](const AuditPassed& m) { on_audit_passed(m); },
                   [&](const Decided& m) { on_decided(m); }},
        message);
  }
  return take_effects();
}

Effects WorkerCore::on(const PeerMessage& message, Instant now) {
  now_ = now;
  // A failed worker still obeys the head, which will begin a round or release it, but nothing else
  // can change its state.
  if (phase_ != Phase::kExited && phase_ != Phase::kFailed) take(message);
  return take_effects();
}

Effects WorkerCore::on(const EngineEvent& event, Instant now) {
  now_ = now;
  if (phase_ != Phase::kExited && phase_ != Phase::kFailed) {
    std::visit(Overloaded{[&](const VersionLoaded& e) { on_version_loaded(e); },
                          [&](const PartSummed& e) { on_part_summed(e); },
                          [&](const StepsHeldUp& e) { on_steps_held_up(e); },
                          [&](const PartialSumMade& e) { on_partial_sum_made(e); },
                          [&](const BucketReduced& e) { on_bucket_reduced(e); },
                          [&](const AuditDone& e) { on_audit_done(e); },
                          [&](const UpdateApplied& e) { on_update_applied(e); },
                          [&](const VersionExported& e) { on_version_exported(e); },
                          [&](const SumHeld& e) { on_sum_held(e); },
                          [&](const ShardsUpdated& e) { on_shards_updated(e); },
                          [&](const ShardsExported& e) { on_shards_exported(e); },
                          [&](const ShardsTaken& e) { on_shards_taken(e); },
                          [&](const StateDigested& e) { on_state_digested(e); },
                          [&](const EvaluationDone& e) { on_evaluation_done(e); },
                          [&](const CheckpointFinished& e) { on_checkpoint_finished(e); },
                          [&](const DataUnreadable& e) { on_data_unreadable(e); },
                          [&](const CheckpointDamaged& e) { on_checkpoint_damaged(e); },
                          [&](const EngineFailed& e) { on_engine_failed(e); }},
               event);
  }
  return take_effects();
}

Effects WorkerCore::on(const LinkEvent& event, Instant now) {
  now_ = now;
  std::visit(Overloaded{[&](const BytesArrived& e) { on_bytes_arrived(e); },
                        [&](const LinkLost& e) { on_link_lost(e); },
                        [&](const LinkAwaited& e) { on_link_awaited(e); },
                        [&](const LinkMade& e) { on_link_made(e); }},
             event);
  return take_effects();
}

Effects WorkerCore::on(const PullEvent& event, Instant now) {
  now_ = now;
  if (phase_ != Phase::kExited && phase_ != Phase::kFailed) {
    std::visit(Overloaded{[&](const PullProgress& e) { on_pull_progress(e); },
                          [&](const StatePulled& e) { on_state_pulled(e); },
                          [&](const PullFailed& e) { on_pull_failed(e); }},
               event);
  }
  return take_effects();
}

void WorkerCore::on_bytes_arrived(const BytesArrived& event) {
  // Bytes of another peer do not show that the awaited one makes progress.
  if (awaited().contains(event.from)) last_progress_ = now_;
}

// The version is stored with the break, so that a commit can tell when the break no longer matters.
void WorkerCore::on_link_lost(const LinkLost& event) {
  broken_links_[event.peer] = {now_, version_};
  for (auto& [version, gathering] : gathering_)
    if (gathering.awaited().contains(event.peer)) gathering.broken.emplace(event.peer, now_);
}

void WorkerCore::on_link_awaited(const LinkAwaited& event) {
  if (!links_made_.contains(event.peer)) links_awaited_.try_emplace(event.peer, now_);
}

void WorkerCore::on_link_made(const LinkMade& event) {
  links_made_.insert(event.peer);
  links_awaited_.erase(event.peer);
}

Effects WorkerCore::tick(Instant now) {
  now_ = now;
  // One suspicion is enough: the head answers it with a round. A round or a commit resets the flag.
  if (suspected_ || operation_ != Operation::kNone) return {};
  // No load or update runs here, and awaited() is empty while the own local steps run. Every wait
  // is therefore a wait for another process.
  if (pulls(generation_) && now_ - last_progress_ > config_.pull_timeout) give_up_pull();
  for (const Incarnation peer : awaited()) {
    if (waits_in_vain_for(peer)) suspect(peer);
  }
  suspect_owners();
  return take_effects();
}

// After a break of the link the limit is shorter. Both times must exceed it, so that the peer gets
// the whole time after the break, and progress after the break restarts it.
bool WorkerCore::waits_in_vain_for(Incarnation peer) const {
  const Instant idle = now_ - last_progress_;
  if (const auto link = broken_links_.find(peer); link != broken_links_.end()) {
    if (std::min(idle, now_ - link->second.at) > config_.link_timeout) return true;
  }
  // A link that was never there, such as one through a firewall, is not reported as broken.
  if (const auto link = links_awaited_.find(peer); link != links_awaited_.end())
    if (std::min(idle, now_ - link->second) > kFirstLinkTimeouts * config_.link_timeout)
      return true;
  if (phase_ == Phase::kLoading) return idle > config_.fetch_timeout;
  // A slow device is not a fault. The limit grows with the measured steps, and in the first step,
  // which has no mean, with the duration of the own part.
  return idle > std::max(config_.step_timeout, kPatienceSteps * std::max(mean_step_, own_part_));
}

Effects WorkerCore::take_effects() {
  check_invariants();
  return std::exchange(effects_, {});
}

void WorkerCore::check_invariants() const {
  if (phase_ == Phase::kExited || phase_ == Phase::kFailed) return;
  const bool stepping = phase_ == Phase::kActive || phase_ == Phase::kPaused;
  if (stepping || phase_ == Phase::kReady) {
    ES_CHECK(version_.has_value());
    ES_CHECK(installed_ && !ranks_.empty());
    ES_CHECK(*version_ >= install_.target && *version_ <= install_.last_version);
  }
  // A worker makes its shards in a round, too, if others have done so in the step before.
  ES_CHECK(operation_ != Operation::kUpdate || phase_ == Phase::kActive || !held_.empty());
  ES_CHECK(!ahead_ || (version_.has_value() && held_sums_.empty()));
  ES_CHECK(operation_ != Operation::kLoad || phase_ == Phase::kLoading);
  ES_CHECK(!prepare_pending_ || operation_ != Operation::kNone);
  // Nothing of a step outlives its generation. Otherwise parts of two placements could be mixed in
  // one sum.
  ES_CHECK(stepping || (staged_.empty() && sums_.empty() && !steps_started_));
  // A line of a version that this worker does not hold would claim a commit that did not happen.
  ES_CHECK(lines_.empty() || !version_ || lines_.rbegin()->first <= *version_);
}

void WorkerCore::forget_lines_through(Version version) {
  lines_.erase(lines_.begin(), lines_.upper_bound(version));
}

const Member& WorkerCore::owner_of(std::uint32_t bucket) const {
  // All members have the same list from Install, so they agree on the owner without a message.
  if (sharded()) return *member(install_.holders[bucket].owner);
  return install_.members[bucket % install_.members.size()];
}

const Member* WorkerCore::member(Incarnation incarnation) const {
  for (const Member& member : install_.members) {
    if (member.incarnation == incarnation) return &member;
  }
  return nullptr;
}

std::uint32_t WorkerCore::place_of(const Member& member) const {
  return static_cast<std::uint32_t>(&member - install_.members.data());
}

void WorkerCore::send_head(WorkerMessage message) {
  effects_.push_back(SendHead{std::move(message)});
}

void WorkerCore::send_peer(const Member& to, PeerMessage message) {
  effects_.push_back(
      SendPeer{to.incarnation, to.address, to.host_id, std::move(message), to.channel});
}

void WorkerCore::suspect(Incarnation awaited) {
  suspected_ = true;
  const Version step = phase_ == Phase::kLoading ? install_.target : version_.value_or(0);
  send_head(Suspect{stamp(), step, awaited});
}

void WorkerCore::anomaly(std::string text) {
  effects_.push_back(ReportAnomaly{std::move(text)});
}

void WorkerCore::abort(std::string reason) {
  phase_ = Phase::kExited;
  effects_.push_back(Abort{std::move(reason)});
}

}  // namespace es::actors::worker
