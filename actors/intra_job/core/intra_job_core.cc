#include "actors/intra_job/core/intra_job_core.h"

#include <algorithm>
#include <bit>

namespace es::actors::intra_job {

using namespace protocol;  // the vocabulary of this file

const char* state_name(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "queued";
    case JobState::kStarting:
      return "starting";
    case JobState::kRunning:
      return "running";
    case JobState::kRescaling:
      return "rescaling";
    case JobState::kPaused:
      return "paused";
    case JobState::kFinished:
      return "finished";
    case JobState::kFailed:
      return "failed";
    case JobState::kCancelled:
      return "cancelled";
  }
  return "?";
}

IntraJobCore::IntraJobCore(Config config, Services services)
    : IntraJobCore(std::move(config), std::move(services), JobRecord{}, LedgerHistory{}) {
  demand_was_met_ = false;
}

IntraJobCore::IntraJobCore(Config config, Services services, JobRecord record,
                           LedgerHistory history)
    : config_(std::move(config)),
      services_(std::move(services)),
      schedule_(config_.spec.stages, config_.start_version),
      record_(std::move(record)),
      fleet_(config_.spec.max_p),
      ledger_(config_.start_version),
      progress_(config_.start_version),
      audits_(config_.spec.audit.every_steps),
      periodic_(config_.spec.checkpoint, config_.last_version, record_) {
  ES_CHECK(config_.last_version > 0 && config_.bucket_count > 0);
  for (const LedgerLine& line : history.lines) {
    ES_CHECK(ledger_.add(line, Incarnation{}) == LedgerBook::Answer::kAdded);
  }
  evaluations_.insert(history.evaluations.begin(), history.evaluations.end());
  // A head that died while it cut the ledger may have left lines that an audit made void.
  if (record_.rewinding) forget_after(std::min(*record_.rewinding, ledger_.through()));
  for (const KnownWorker& known : record_.known) {
    fleet_.hold(known.device);
    Worker& worker = fleet_.add(known.incarnation, known.device);
    worker.phase = Worker::Phase::kKnown;
    worker.address = known.address;
    worker.host_id = known.host_id;
    worker.placed = true;
    // Passed audits are not journaled.
    trusted_through_[known.device] = config_.start_version;
  }
  // Workers of the record may hold a version up to the newest in the ledger. This is assumed until
  // they report.
  progress_ = record_.known.empty() ? restart_point().second : ledger_.through();
  if (staged()) stage_ = schedule_.stage_at(ledger_.through());
}

Effects IntraJobCore::start(Instant now) {
  now_ = now;
  if (is_over(record_.state)) {
    phase_ = Phase::kEnding;
  } else {
    if (record_.bound_type) effects_.push_back(BoundToType{*record_.bound_type});
    if (record_.rewinding) finish_rewinding();
    if (!paused()) begin_round();
  }
  settle();
  return take_effects();
}

Effects IntraJobCore::on(const Event& event, Instant now) {
  now_ = now;
  std::visit([this](const auto& e) { handle(e); }, event);
  settle();
  return take_effects();
}

// A checkpoint is on the disk even if its writer is leaving, so it counts. A message of a killed
// worker does not count, because what it wrote may be spoiled.
bool IntraJobCore::counts(const Worker& worker, const WorkerMessage& message) const {
  if (worker.killed) return false;
  if (std::holds_alternative<CheckpointWritten>(message)) return true;
  if (worker.phase == Worker::Phase::kLeaving) return false;
  const bool fact =
      std::holds_alternative<Failed>(message) || std::holds_alternative<Evaluated>(message);
  return fact || (worker.phase == Worker::Phase::kKnown &&
                  stamp_of(message).generation == record_.generation);
}

Effects IntraJobCore::on(const WorkerMessage& message, Instant now) {
  now_ = now;
  if (const auto* hello = std::get_if<Hello>(&message)) {
    handle(*hello);
    settle();
    return take_effects();
  }
  const Stamp& from = stamp_of(message);
  Worker* worker = fleet_.find(from.sender);
  if (worker == nullptr) {
    kill_unknown(from.sender);
  } else if (counts(*worker, message)) {
    std::visit([&](const auto& m) { handle(*worker, m); }, message);
  }
  settle();
  return take_effects();
}

Effects IntraJobCore::tick(Instant now) {
  now_ = now;
  if (phase_ == Phase::kDraining && now - drain_since_ > config_.drain_timeout) {
    log("the members did not drain in time: changing the placement without");
    begin_round();
  }
  for (auto& [incarnation, worker] : fleet_.workers()) {
    const bool late = worker.phase == Worker::Phase::kLeaving && !worker.killed &&
                      now - worker.leaving_since > config_.exit_timeout;
    if (late) kill(worker);
  }
  evict_silent_workers();
  if (save_again_at_ && now >= *save_again_at_) suspension_failed_ = false;
  if (!suspension_failed_) save_again_at_.reset();
  settle();
  return take_effects();
}

std::optional<Instant> IntraJobCore::next_tick() const {
  std::optional<Instant> first = demand_again_at_;
  const auto limit = [&](Instant at) { first = std::min(first.value_or(at), at); };
  if (phase_ == Phase::kDraining) limit(drain_since_ + config_.drain_timeout);
  if (save_again_at_) limit(*save_again_at_);
  if (const auto rested = rest_.first_end(now_)) limit(*rested);
  for (const auto& [incarnation, worker] : fleet_.workers()) {
    if (worker.phase == Worker::Phase::kLeaving && !worker.killed)
      limit(worker.leaving_since + config_.exit_timeout);
    if (worker.phase == Worker::Phase::kStarting) limit(worker.started + config_.start_timeout);
    if (phase_ == Phase::kPreparing && worker.phase == Worker::Phase::kKnown)
      limit(round_since_ + config_.report_timeout);
  }
  return first;
}

// Draws the consequences of the new state after any event. The order matters. A stop or a
// suspension may change the phase, on which the rest depends. update_demand() clears
// demand_again_at_, which reconcile() reads. finish_if_done() precedes consider_change(), so that a
// finished job begins no further round. end_if_empty() follows reconcile(), which gives back the
// last devices.
void IntraJobCore::settle() {
  ask_elsewhere();
  consider_stop();
  consider_suspension();
  ask_nodes();
  say_what_it_waits_for();
  // The restart point may have become an older state, which belongs to an earlier stage.
  if (staged() && phase_ == Phase::kIdle) stage_ = schedule_.stage_at(next_version());
  update_demand();
  reconcile();
  finish_if_done();
  consider_change();
  end_if_empty();
  if (paused() && fleet_.holds_nothing()) answer_pauses({});
}

Effects IntraJobCore::take_effects() {
  check_invariants();
  return std::exchange(effects_, {});
}

void IntraJobCore::check_invariants() const {
  const bool stepping = phase_ == Phase::kNormal || phase_ == Phase::kDraining;
  ES_CHECK((phase_ == Phase::kEnding) == is_over(record_.state));
  ES_CHECK(!stepping || fleet_.placed().size() == members_.size());
  ES_CHECK(phase_ != Phase::kIdle || fleet_.in_phase(Worker::Phase::kKnown).empty());
  ES_CHECK(phase_ != Phase::kInstalling || ready_.size() < members_.size());
  VirtualRank next = 0;
  for (const Member& member : members_) {
    ES_CHECK(member.ranks.begin == next && !member.ranks.empty());
    next = member.ranks.end;
  }
  ES_CHECK(members_.empty() || next == config_.spec.max_p);
}

void IntraJobCore::send(const Worker& worker, HeadMessage message) {
  effects_.push_back(SendWorker{worker.incarnation, worker.address, std::move(message)});
}

void IntraJobCore::kill_unknown(Incarnation incarnation) {
  if (!exited_.contains(incarnation)) effects_.push_back(KillWorker{incarnation});
}

// --- messages of workers -----------------------------------------------------------------------

void IntraJobCore::handle(const Hello& message) {
  const Incarnation sender = message.stamp.sender;
  Worker* worker = fleet_.find(sender);
  if (worker == nullptr) {
    // This includes a joining worker that an earlier head started. It holds no state, and the head
    // may use its device for another process.
    kill_unknown(sender);
    return;
  }
  if (worker->phase == Worker::Phase::kStarting) worker->phase = Worker::Phase::kWarm;
  failed_starts_.erase(worker->device);
  worker->address = message.address;
  worker->host_id = message.host_id;
  worker->channel = message.channel;
  if (worker->phase != Worker::Phase::kKnown || phase_ == Phase::kEnding) return;
  // The link of this worker was down, and messages in both directions may be lost. A new round
  // determines the state of all workers.
  if (phase_ != Phase::kPreparing) {
    log("worker " + std::to_string(sender.value) + " is back after its link broke");
    begin_round();
  } else if (!reports_.contains(sender)) {
    send(*worker, Prepare{stamp()});  // the normal case after a restart of the head
  }
}

void IntraJobCore::handle(Worker& worker, const Report& message) {
  if (phase_ != Phase::kPreparing) return;
  worker.version = message.version;
  reports_[worker.incarnation] = message.version;
  install_when_known();
}

void IntraJobCore::handle(Worker& worker, const Ready& message) {
  if (phase_ != Phase::kInstalling || !worker.placed || message.version != target_) return;
  worker.version = message.version;
  ready_.insert(worker.incarnation);
  if (ready_.size() == members_.size()) go();
}

void IntraJobCore::handle(Worker& worker, const Drained& message) {
  if (phase_ != Phase::kNormal && phase_ != Phase::kDraining) return;
  worker.version = message.version;
  drained_.insert(worker.incarnation);
  clock_.pause(now_);
  if (!waits_for_stage_) show_state(JobState::kRescaling);
  if (phase_ != Phase::kDraining || !all_stopped()) return;
  if (suspending_ || stops()) {
    phase_ = Phase::kNormal;  // a checkpoint comes next, no other placement
  } else {
    begin_round();
  }
}

void IntraJobCore::handle(Worker& worker, const Committed& message) {
  worker.version = std::max(worker.version.value_or(0), message.line.version);
  progress_ = std::max(progress_, message.line.version);
  if (config_.sparse_ledger) ledger_.skip_to(message.line.version - 1);
  switch (ledger_.add(message.line, worker.incarnation)) {
    case LedgerBook::Answer::kAdded:
      // The line precedes every Acknowledge in the list of effects, so it is durable before workers
      // forget it.
      effects_.push_back(LedgerLineAdded{message.line});
      clock_.step(now_);
      // Only the last evaluation follows, which does not count as training time.
      if (ledger_.through() == config_.last_version) clock_.pause(now_);
      losses_without_progress_ = 0;
      suspected_.clear();
      named_.clear();
      acknowledge();
      take_written_checkpoints();
      break;
    case LedgerBook::Answer::kRepeated:
      break;
    case LedgerBook::Answer::kGap:
      log("worker " + std::to_string(worker.incarnation.value) + " told of version " +
          std::to_string(message.line.version) + ", the ledger has " +
          std::to_string(ledger_.through()));
      break;
    case LedgerBook::Answer::kConflict:
      fail(ledger_.conflict());
      break;
  }
}

void IntraJobCore::acknowledge() {
  if (ledger_.through() < acknowledged_ + config_.acknowledge_every) return;
  // An Acknowledge also makes workers forget their evaluations of earlier versions.
  if (!is_evaluated_before(ledger_.through())) return;
  acknowledged_ = ledger_.through();
  for (const Incarnation incarnation : fleet_.placed()) {
    send(*fleet_.find(incarnation), Acknowledge{stamp(), acknowledged_});
  }
}

void IntraJobCore::handle(Worker& worker, const Evaluated& message) {
  const Digest digest = digest_of(*message.totals);
  const auto [before, is_new] = evaluations_.emplace(message.version, digest);
  if (is_new) {
    effects_.push_back(EvaluationAdded{message.version, message.totals});
  } else if (before->second != digest) {
    fail("non-deterministic: evaluation of version " + std::to_string(message.version) +
         ": results with digest " + before->second.hex() + " before, " + digest.hex() +
         " on worker " + std::to_string(worker.incarnation.value));
  }
}

// Returns the newest version up to which all due evaluations are known. An evaluation that a worker
// made while the head was away must still be reported, even if a later one is known already.
Version IntraJobCore::evaluated_through() const {
  Version through = 0;
  for (const auto& [version, digest] : evaluations_) {
    const Version next = next_evaluation(std::max(through + 1, config_.start_version));
    if (version > next) break;
    through = std::max(through, version);
  }
  return through;
}

// Returns the first version that is evaluated, not before `version`.
Version IntraJobCore::next_evaluation(Version version) const {
  const Version every = config_.spec.eval_every;
  if (every == 0) return config_.last_version;
  return std::min((version + every - 1) / every * every, config_.last_version);
}

// Returns whether the head knows the newest evaluation that members had to make before they could
// step to `version`; true if none was due.
bool IntraJobCore::is_evaluated_before(Version version) const {
  const Version every = config_.spec.eval_every;
  if (every == 0 || version == 0) return true;
  const Version due = (version - 1) / every * every;
  return due == 0 || due < config_.start_version || evaluations_.contains(due);
}

void IntraJobCore::handle(Worker& worker, const Suspect& message) {
  Worker* awaited = fleet_.find(message.awaited);
  const bool relevant = awaited != nullptr && awaited->phase == Worker::Phase::kKnown &&
                        awaited != &worker && phase_ != Phase::kPreparing &&
                        phase_ != Phase::kEnding;
  if (!relevant) return;
  ++named_[awaited->incarnation];
  const Pair pair = std::minmax(worker.incarnation, awaited->incarnation);
  const std::string text = std::to_string(worker.incarnation.value) + " waits in vain for worker " +
                           std::to_string(awaited->incarnation.value);
  if (suspected_.insert(pair).second) {
    log("worker " + text + ": new round with new connections");
    begin_round();
  } else {
    Worker& out = whom_to_evict(worker, *awaited);
    rest_.taken_out(out.device, now_);
    evict(out, "is taken out: worker " + text + " again");
  }
}

// Chooses the worker to evict when two workers cannot reach each other. First a worker that holds
// no version, if the other one does: a joiner that cannot reach its source names the source, which
// may be the only holder of the state. Then the worker that more members named, then the one whose
// loss costs no version, then the one with the higher ranks.
Worker& IntraJobCore::whom_to_evict(Worker& a, Worker& b) {
  if (a.version.has_value() != b.version.has_value()) return a.version ? b : a;
  const int named_a = named_[a.incarnation];
  const int named_b = named_[b.incarnation];
  if (named_a != named_b) return named_a > named_b ? a : b;
  if (a.version != b.version) return a.version < b.version ? a : b;
  const auto first = std::find_if(members_.begin(), members_.end(), [&](const Member& member) {
    return member.incarnation == a.incarnation || member.incarnation == b.incarnation;
  });
  return first != members_.end() && first->incarnation == a.incarnation ? b : a;
}

void IntraJobCore::handle(Worker& worker, const Failed& message) {
  fail(message.error + " (worker " + std::to_string(worker.incarnation.value) + " on " +
       worker.device.text() + ")");
}

}  // namespace es::actors::intra_job
