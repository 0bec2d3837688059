#include "actors/head/intra_job/core/rounds.h"

#include <algorithm>

#include "proto/base/check.h"

namespace es::actors::intra_job {

using namespace protocol;

namespace {

// All workers of two nodes use one link, so either of them may report it.
std::string link_end(const Worker& worker, const Worker& other) {
  const std::string& node = worker.device.node;
  return node == other.device.node ? node + "#" + std::to_string(worker.incarnation.value) : node;
}

}  // namespace

void Rounds::begin(PauseCause cause) {
  parts_.progress.pause(cause);
  may_load_ =
      context_.phase == Phase::kInstalling || (context_.phase == Phase::kPreparing && may_load_);
  forget_round();
  // A worker that obeys Prepare forgets the checkpoints that it has not begun to write. The
  // suspension requests its own again if it still has to, in a directory of the new generation.
  parts_.checkpoints.forget_suspension();
  parts_.checkpoints.move_at_end(context_.last_version);
  admit_warm_workers();
  const std::vector<Incarnation> known = context_.fleet.in_phase(Worker::Phase::kKnown);
  if (known.empty()) return wait_for_workers();
  context_.phase = Phase::kPreparing;
  ++context_.record.generation.value;
  if (context_.record.state == JobState::kRunning) context_.show_state(JobState::kRescaling);
  // The generation is durable before the first Prepare, because a restarted head must not use it
  // again.
  context_.save();
  const auto prepare = std::make_shared<const HeadMessage>(Prepare{context_.stamp()});
  for (const Incarnation incarnation : known)
    context_.send(*context_.fleet.find(incarnation), prepare);
}

void Rounds::forget_round() {
  loads_.reset();
  reports_.clear();
  ready_.clear();
  drained_.clear();
  context_.members.clear();
  waits_for_stage_ = false;
  round_since_ = context_.now;
}

// Joining workers take part from the next round on, if the placement will need them.
void Rounds::admit_warm_workers() {
  Fleet& fleet = context_.fleet;
  if (context_.phase == Phase::kIdle && fleet.in_phase(Worker::Phase::kWarm).empty()) return;
  const Wanted wanted = parts_.demand.at(parts_.restart.next_version());
  for (const Incarnation incarnation : fleet.choose(wanted, true).workers)
    fleet.find(incarnation)->phase = Worker::Phase::kKnown;
}

// No known worker is left. The job continues from its newest saved state when it has processes
// again.
void Rounds::wait_for_workers() {
  context_.phase = Phase::kIdle;
  context_.placement = {};
  // What the nodes answered may be outdated, because members have written checkpoints since. They
  // are asked again before one of these states is chosen.
  parts_.restart.forget();
  parts_.checkpoints.drop_written("all workers were lost before the ledger had its version");
  if (!context_.record.known.empty()) context_.save();  // their devices may be used again
  const Version version = parts_.restart.version();
  parts_.progress.set_version(version);
  parts_.demand.enter_stage_of(version);
  context_.show_state(context_.fleet.allocated_set().empty() ? JobState::kQueued
                                                             : JobState::kStarting);
}

void Rounds::came_back(const Worker& worker) {
  // The worker may have missed a message, or the head one of its messages. A new round determines
  // the state of all workers.
  if (context_.phase != Phase::kPreparing) {
    context_.warn("worker " + std::to_string(worker.incarnation.value) +
                  " has connected again after its link broke");
    begin(PauseCause::kLink);
  } else if (!reports_.contains(worker.incarnation)) {
    context_.send(worker, Prepare{context_.stamp()});  // the normal case after a restart
  }
}

void Rounds::take(Worker& worker, const Report& message) {
  if (context_.phase != Phase::kPreparing) return;
  worker.version = message.version;
  if (message.version && message.ahead) ++*worker.version;
  Report& report = reports_[worker.incarnation] = message;
  const auto is_unknown = [this](std::uint32_t b) { return b >= context_.config.shards.size(); };
  std::erase_if(report.held, is_unknown);
  std::erase_if(report.summed, is_unknown);
  continue_if_known();
}

Worker* Rounds::take(Worker& worker, const Ready& message) {
  if (context_.phase != Phase::kInstalling || !worker.placed || message.version != target_)
    return nullptr;
  worker.version = message.version;
  ready_.insert(worker.incarnation);
  if (ready_.size() < context_.members.size()) return nullptr;
  Worker* const other = agree_on_kernels();
  if (other == nullptr) go();
  return other;
}

// Members that came with a version have computed it, so they decide with which kernels the job goes
// on. Returns a member that has others.
Worker* Rounds::agree_on_kernels() {
  for (const bool came_with_version : {true, false}) {
    for (const Member& member : context_.members) {
      Worker& worker = *context_.fleet.find(member.incarnation);
      if (reports_.at(member.incarnation).version.has_value() != came_with_version) continue;
      if (!check_kernels(worker).ok()) return &worker;
      kernels_.add(worker.device.type, worker.kernels);
    }
  }
  return nullptr;
}

bool Rounds::take(Worker& worker, const Drained& message) {
  if (!context_.has_members_at_work()) return false;
  worker.version = message.version;
  drained_.insert(worker.incarnation);
  parts_.progress.pause();
  if (!waits_for_stage_ && !holds_) context_.show_state(JobState::kRescaling);
  return context_.phase == Phase::kDraining && all_stopped();
}

bool Rounds::all_reported() const {
  // Only known workers report, and a worker that stops being known in this phase begins a new
  // round, which clears the reports. So equal numbers mean that every known worker has reported.
  return context_.phase == Phase::kPreparing &&
         reports_.size() == context_.fleet.in_phase(Worker::Phase::kKnown).size();
}

void Rounds::continue_if_known() {
  if (all_reported()) install();
}

void Rounds::go() {
  context_.phase = Phase::kNormal;
  loads_.reset();
  const std::vector<Incarnation> leavers = dismiss_unplaced();
  // The Install of this round has told the members which lines are stored.
  parts_.progress.set_acknowledged();
  if (!waits_for_stage_ && !holds_) {
    parts_.progress.go(parts_.demand.stage());
    context_.show_state(JobState::kRunning);
  }
  // The members are durable before Go, and the leavers are no longer in the record: a restarted
  // head expects exactly the workers of its record.
  context_.save();
  parts_.audits.begin(target_);
  const auto go = std::make_shared<const HeadMessage>(Go{context_.stamp()});
  for (const Member& member : context_.members)
    context_.send(*context_.fleet.find(member.incarnation), go);
  for (const Incarnation incarnation : leavers)
    context_.send(*context_.fleet.find(incarnation), Release{context_.stamp()});
  // In the round, the earlier writer has forgotten the requests that it had not begun.
  parts_.checkpoints.ask();
  parts_.checkpoints.ask_for_periodic();
}

// Known workers without ranks have served as sources and are not needed any more.
std::vector<Incarnation> Rounds::dismiss_unplaced() {
  std::vector<Incarnation> leavers;
  for (const Incarnation incarnation : context_.fleet.in_phase(Worker::Phase::kKnown)) {
    Worker& worker = *context_.fleet.find(incarnation);
    if (worker.placed) continue;
    context_.fleet.leave(worker);
    worker.leaving_since = context_.now;
    leavers.push_back(incarnation);
  }
  return leavers;
}

void Rounds::drain() {
  context_.phase = Phase::kDraining;
  drain_since_ = context_.now;
  context_.show_state(JobState::kRescaling);
  context_.send_to_members(Drain{context_.stamp()});
}

void Rounds::stop() {
  hold();
  // Members that a round holds pause by themselves.
  if (!pauses_at(parts_.restart.next_version())) drain();
}

void Rounds::go_on() {
  const bool held = std::exchange(holds_, false);
  const bool in_round = context_.phase == Phase::kPreparing || context_.phase == Phase::kInstalling;
  if (in_round ? held : context_.phase == Phase::kNormal && (held || all_stopped())) begin();
}

bool Rounds::ends_at(Version version) const {
  return version == context_.last_version && !parts_.progress.awaits_evaluation(version);
}

// The time that members get to pause by themselves. Those that have to leave soon do not wait for
// an evaluation, which is repeated later, nor for the end of a step that takes long.
Instant Rounds::stop_limit() const {
  const Config& config = context_.config;
  if (!holds_ && !must_leave()) return config.drain_timeout;
  if (parts_.progress.awaits_evaluation(parts_.restart.next_version()))
    return config.evaluation_timeout;
  return context_.urgent ? std::min(config.drain_timeout, config.urgent_drain_timeout)
                         : config.drain_timeout;
}

void Rounds::end_late_drain() {
  const bool late =
      context_.phase == Phase::kDraining && context_.now - drain_since_ > stop_limit();
  if (!late) return;
  // Safety does not depend on the drain. Without it, the members discard the step or the evaluation
  // that they have begun.
  if (parts_.progress.awaits_evaluation(parts_.restart.next_version()))
    context_.log("an evaluation is given up, because members have to leave; it is repeated");
  else
    context_.warn("the members did not drain in time: the placement is changed without a drain");
  begin();
}

void Rounds::rebalance() {
  const Version version = parts_.restart.next_version();
  // At these versions the members stop by themselves. A placement that follows is made with the
  // newest speeds anyway.
  const bool stops_soon = version == context_.last_version || pauses_at(version);
  if (context_.phase == Phase::kNormal && !all_stopped() && !stops_soon) drain();
}

// Returns whether a member is on a device that the job must give back.
bool Rounds::must_leave() const {
  return std::ranges::any_of(context_.fleet.placed(), [this](Incarnation incarnation) {
    return !context_.fleet.allocated(context_.fleet.workers().at(incarnation).device);
  });
}

void Rounds::consider_change() {
  if (context_.phase != Phase::kIdle && context_.phase != Phase::kNormal) return;
  const Version version = parts_.restart.next_version();
  const Fleet& fleet = context_.fleet;
  const Wanted wanted = parts_.demand.at(version);
  if (context_.phase == Phase::kIdle && fleet.awaits_start(wanted)) return;
  const Fleet::Choice choice = fleet.choose(wanted, true);
  if (context_.phase == Phase::kIdle) {
    // The first round waits until all wanted processes are up and their nodes have said what they
    // can read. A round with only some of them would soon be followed by another one.
    if (choice.complete && parts_.restart.is_known_to(choice.workers)) begin();
    return;
  }
  const std::vector<Incarnation> placed = fleet.placed();
  // One worker must keep the state. If no other worker can be a member, leaving waits.
  const bool leaves = must_leave() && (!choice.workers.empty() ||
                                       !fleet.choose(std::nullopt, false).workers.empty());
  if (version == context_.last_version && (!leaves || ends_at(version))) return;
  const bool changed =
      choice.complete && choice.workers != std::set<Incarnation>(placed.begin(), placed.end());
  // Members that stand already need no drain, for example at the end of a stage. If the newest
  // version is the one at which they pause by themselves, the rest of them will stop there too.
  if (all_stopped()) {
    if (choice.complete || leaves) begin();
  } else if (!pauses_at(version) && (changed || leaves)) {
    drain();
  }
}

void Rounds::release_everybody() {
  context_.phase = Phase::kIdle;
  context_.members.clear();
  context_.placement = {};
  waits_for_stage_ = holds_ = false;
  const Version version = parts_.restart.version();
  parts_.progress.set_version(version);
  parts_.demand.enter_stage_of(version);
  // JobContext::save() is not used, because it would enter the workers again: they are still in the
  // fleet as known ones.
  context_.record.known.clear();
  context_.emit(SaveRecord{context_.record});
  parts_.fleet.end_known();
}

void Rounds::made_progress() {
  // A version is committed only with contributions of all members, so the links that a step needs
  // work again.
  suspected_.clear();
  named_.clear();
}

Worker* Rounds::take(Worker& worker, const Suspect& message) {
  Worker* awaited = context_.fleet.find(message.awaited);
  // In phase Preparing a new round, which makes new connections, has begun already.
  const bool relevant = awaited != nullptr && awaited->phase == Worker::Phase::kKnown &&
                        awaited != &worker && context_.phase != Phase::kPreparing &&
                        !context_.is_ending();
  if (!relevant) return nullptr;
  const std::string from = link_end(worker, *awaited), to = link_end(*awaited, worker);
  ++named_[to];
  // Either side of a broken link may notice it first, so both directions count as one pair.
  const Pair pair = std::minmax(from, to);
  if (!suspected_.insert(pair).second) return &choose_eviction(worker, *awaited);
  context_.warn("worker " + std::to_string(worker.incarnation.value) +
                " waits in vain for worker " + std::to_string(awaited->incarnation.value) +
                ": new round with new connections");
  begin(PauseCause::kLink);
  return nullptr;
}

// Chooses the worker to evict when two workers cannot reach each other. First a worker that holds
// no version, if the other one does: a joiner that cannot reach its source names the source, which
// may be the only holder of the state. Then the one without which every shard is still there. Then
// the worker whose node, or which itself, more members named, then the one whose loss costs no
// version, then the one on the node with fewer members, then the one with the higher ranks.
Worker& Rounds::choose_eviction(Worker& a, Worker& b) {
  if (a.version.has_value() != b.version.has_value()) return a.version ? b : a;
  if (is_last_holder(a) != is_last_holder(b)) return is_last_holder(a) ? b : a;
  const int named_a = named_[link_end(a, b)];
  const int named_b = named_[link_end(b, a)];
  if (named_a != named_b) return named_a > named_b ? a : b;
  if (a.version != b.version) return a.version < b.version ? a : b;
  const auto members_a = members_on(a.device.node), members_b = members_on(b.device.node);
  if (members_a != members_b) return members_a < members_b ? a : b;
  const auto first = std::ranges::find_if(context_.members, [&](const Member& member) {
    return member.incarnation == a.incarnation || member.incarnation == b.incarnation;
  });
  return first != context_.members.end() && first->incarnation == a.incarnation ? b : a;
}

// A worker that loads a version reports when it has ended, which may take as long as a start.
Instant Rounds::report_limit() const {
  return may_load_ ? context_.config.start_timeout : context_.config.report_timeout;
}

bool Rounds::loads_saved() const {
  // The second case: nodes have not said yet which saved states they can read.
  return (context_.phase == Phase::kInstalling && loads_saved_) ||
         (all_reported() && !newest_reported());
}

std::ptrdiff_t Rounds::members_on(const std::string& node) const {
  return std::ranges::count_if(context_.members, [&](const Member& member) {
    return context_.fleet.find(member.incarnation)->device.node == node;
  });
}

// Neither the gateway nor a node reports these workers as lost: they hang, or were stopped before
// their Hello.
std::vector<Incarnation> Rounds::silent_workers() const {
  std::vector<Incarnation> silent;
  const Config& config = context_.config;
  for (const auto& [incarnation, worker] : context_.fleet.workers()) {
    const bool starts = worker.phase == Worker::Phase::kStarting;
    const bool reports = context_.phase == Phase::kPreparing &&
                         worker.phase == Worker::Phase::kKnown && !reports_.contains(incarnation);
    if ((starts && context_.now - worker.started > config.start_timeout) ||
        (reports && context_.now - round_since_ > report_limit()))
      silent.push_back(incarnation);
  }
  return silent;
}

std::optional<Instant> Rounds::next_limit() const {
  if (context_.phase == Phase::kDraining) return drain_since_ + stop_limit();
  // When all workers have reported, the round may still wait for nodes that look for saved states.
  // This limit does not concern them, and one that has passed would make the shell tick again and
  // again without a pause.
  const bool waits = context_.phase == Phase::kPreparing && !all_reported();
  if (waits) return round_since_ + report_limit();
  return std::nullopt;
}

void Rounds::check_invariants() const {
  const bool stepping = context_.has_members_at_work();
  ES_CHECK(!stepping || context_.fleet.placed().size() == context_.members.size());
  ES_CHECK(context_.phase != Phase::kIdle ||
           context_.fleet.in_phase(Worker::Phase::kKnown).empty());
  ES_CHECK(context_.phase != Phase::kInstalling || ready_.size() < context_.members.size());
  VirtualRank next = 0;
  for (const Member& member : context_.members) {
    ES_CHECK(member.ranks.begin == next && !member.ranks.empty());
    next = member.ranks.end;
  }
  ES_CHECK(context_.members.empty() || next == context_.config.spec.max_p);
}

}  // namespace es::actors::intra_job
