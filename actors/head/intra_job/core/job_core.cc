#include "actors/head/intra_job/core/job_core.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/overloaded.h"

namespace es::actors::intra_job {

using namespace protocol;

namespace {

// Two errors of the same kind may differ in sizes, numbers of processes and the like.
std::string without_digits(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

}  // namespace

JobCore::JobCore(Config config, Services services, JobRecord record)
    : JobCore(std::move(config), std::move(services), std::move(record), LedgerHistory{}, true) {}

JobCore::JobCore(Config config, Services services, JobRecord record, LedgerHistory history)
    : JobCore(std::move(config), std::move(services), std::move(record), history, false) {}

JobCore::JobCore(Config config, Services services, JobRecord record, const LedgerHistory& history,
                 bool is_new)
    : context_(std::move(config), std::move(services), std::move(record)),
      progress_(context_, history),
      restart_(context_),
      demand_(context_, restart_, !is_new),
      fleet_(context_),
      checkpoints_(context_, restart_, progress_,
                   [this](const Status& status) { suspension_.written(status); }),
      audits_(context_),
      rounds_(parts()),
      decided_(context_, progress_, checkpoints_),
      suspension_(context_, restart_, demand_, checkpoints_, rounds_),
      usage_(context_),
      lifecycle_(parts(), rounds_, suspension_) {
  ES_CHECK(context_.config.last_version > 0 && context_.config.bucket_count > 0);
  const std::optional<Version>& rewinding = context_.record.rewinding;
  // A head that died while it cut the ledger may have left lines that an audit made void.
  if (rewinding) progress_.forget_after(std::min(*rewinding, progress_.through()));
  adopt_known_workers();
  // Workers of the record may hold a version up to the newest in the ledger. This is assumed until
  // they report.
  progress_.set_version(context_.record.known.empty() ? restart_.version() : progress_.through());
  demand_.enter_stage_of(progress_.through());
}

RoundParts JobCore::parts() {
  return {context_, progress_, restart_, demand_, fleet_, checkpoints_, audits_};
}

void JobCore::adopt_known_workers() {
  for (const KnownWorker& known : context_.record.known) {
    context_.fleet.hold(known.device);
    Worker& worker = context_.fleet.add(known.incarnation, known.device);
    worker.phase = Worker::Phase::kKnown;
    worker.address = known.address;
    worker.host_id = known.host_id;
    // They count as members until the first round has placed the ranks, so that this placement
    // prefers them to new processes.
    worker.placed = true;
  }
}

Effects JobCore::start(Instant now) {
  context_.now = now;
  if (is_over(context_.record.state)) {
    context_.phase = Phase::kEnding;
  } else {
    if (context_.record.bound_type) context_.emit(BoundToType{*context_.record.bound_type});
    // The earlier head died before the ledger was cut, or before it had recorded this.
    if (context_.record.rewinding) finish_rewinding();
    if (!context_.is_paused()) rounds_.begin();
  }
  settle();
  return take_effects();
}

Effects JobCore::on(const Event& event, Instant now) {
  context_.now = now;
  usage_.update();
  std::visit(Overloaded{[&](const Allocation& e) { on_allocation(e); },
                        [&](const DemandRefused& e) { on_demand_refused(e); },
                        [&](const WorkerExited& e) { on_worker_exited(e); },
                        [&](const WorkerLost& e) { on_worker_lost(e); },
                        [&](const ScaleCommand& e) { demand_.scale(e); },
                        [&](const CheckpointCommand& e) { checkpoints_.request(e); },
                        [&](const PauseCommand& e) { suspension_.pause(e); },
                        [&](const ResumeCommand& e) { suspension_.resume(e, waiting_for()); },
                        [&](const BudgetCommand& e) { on_budget_command(e); },
                        [&](const CancelCommand& e) { lifecycle_.cancel(e); },
                        [&](const RebalanceCommand&) { on_rebalance_command(); },
                        [&](const GiveBackCommand& e) { on_give_back_command(e); },
                        [&](const NodesPresent& e) { on_nodes_present(e); },
                        [&](const NodeSaidHello& e) { on_node_said_hello(e); },
                        [&](const StatesFound& e) { on_states_found(e); }},
             event);
  settle();
  return take_effects();
}

Effects JobCore::on(const WorkerMessage& message, Instant now) {
  context_.now = now;
  usage_.update();
  const Stamp& from = stamp_of(message);
  Worker* worker = context_.fleet.find(from.sender);
  // A Hello counts in every generation: it is the first message of a process, and of a worker that
  // has connected again and may have missed a Prepare.
  if (const auto* hello = std::get_if<Hello>(&message)) {
    on_hello(*hello);
  } else if (worker == nullptr) {
    fleet_.kill_unknown(from.sender);
  } else if (counts(*worker, message)) {
    take(*worker, message);
  }
  settle();
  return take_effects();
}

Effects JobCore::tick(Instant now) {
  context_.now = now;
  usage_.update();
  rounds_.end_late_drain();
  fleet_.kill_late_leavers();
  // All workers that are silent now are evicted in one call. The first eviction begins a new round
  // with a new time limit, so the others would otherwise delay the job by another limit each.
  for (const Incarnation incarnation : rounds_.silent_workers()) {
    Worker& worker = *context_.fleet.find(incarnation);
    // An eviction before may have failed the job, which ends all workers.
    if (worker.phase == Worker::Phase::kLeaving) continue;
    const bool starts = worker.phase == Worker::Phase::kStarting;
    evict(worker, {.why = "does not answer",
                   .cause = starts ? EndCause::kItself : EndCause::kKilled,
                   .way = "silence"});
  }
  suspension_.tick();
  settle();
  return take_effects();
}

std::optional<Instant> JobCore::next_tick() const {
  std::optional<Instant> first;
  for (const std::optional<Instant>& limit :
       {demand_.repeated_at(), rounds_.next_limit(), suspension_.next_limit(), fleet_.next_limit(),
        usage_.next()})
    if (limit) first = std::min(first.value_or(*limit), *limit);
  return first;
}

// Draws the consequences of the new state after any event. The order matters. A stop or a
// suspension may change the phase, on which the rest depends. DeviceDemand::update() ends the time
// in which an earlier demand is in force, which reconcile() reads. finish_if_done() precedes
// consider_change(), so that a finished job begins no further round. report_end() follows
// reconcile(), which gives back the last devices.
void JobCore::settle() {
  checkpoints_.ask_elsewhere();
  checkpoints_.answer_while_waiting();
  lifecycle_.consider_stop();
  if (!context_.is_ending() && !context_.is_paused() && !lifecycle_.is_stopping()) {
    if (usage_.is_time_used_up()) suspension_.time_out();
    suspension_.keep_within_budget(usage_.is_budget_used_up());
    suspension_.consider();
  }
  if (suspension_.may_end())
    suspension_.failure().empty() ? lifecycle_.end(JobState::kTimedOut, usage_.time_text())
                                  : lifecycle_.fail(suspension_.failure());
  restart_.ask_nodes();
  restart_.report_wait();
  // The restart point may have become an older state, which belongs to an earlier stage.
  if (context_.phase == Phase::kIdle) demand_.enter_stage_of(restart_.next_version());
  demand_.update();
  fleet_.reconcile(demand_.staff(), demand_.repeated_at().has_value());
  decided_.release(rounds_.target());
  lifecycle_.finish_if_done();
  if (!context_.is_paused() && !suspension_.is_active() && !lifecycle_.is_stopping())
    rounds_.consider_change();
  lifecycle_.report_end();
  if (context_.is_paused() && context_.fleet.holds_nothing()) suspension_.answer_pauses({});
  usage_.look();
}

Effects JobCore::take_effects() {
  check_invariants();
  return std::exchange(context_.effects, {});
}

void JobCore::check_invariants() const {
  ES_CHECK(context_.is_ending() == is_over(context_.record.state));
  rounds_.check_invariants();
}

// --- messages of workers

// A checkpoint is on the disk even if its writer is leaving, so it counts. A message of a killed
// worker does not count, because what it wrote may be spoiled.
bool JobCore::counts(const Worker& worker, const WorkerMessage& message) const {
  if (worker.killed) return false;
  if (std::holds_alternative<CheckpointWritten>(message)) return true;
  if (worker.phase == Worker::Phase::kLeaving) return false;
  const bool fact =
      std::holds_alternative<Failed>(message) || std::holds_alternative<Evaluated>(message);
  return fact || (worker.phase == Worker::Phase::kKnown &&
                  stamp_of(message).generation == context_.record.generation);
}

void JobCore::take(Worker& worker, const WorkerMessage& message) {
  std::visit(Overloaded{[](const Hello&) {},  // on() has taken it
                        [&](const Report& m) { rounds_.take(worker, m); },
                        [&](const Ready& m) { on_ready(worker, m); },
                        [&](const Drained& m) { on_drained(worker, m); },
                        [&](const Committed& m) { on_committed(worker, m); },
                        [&](const Evaluated& m) { on_evaluated(worker, m); },
                        [&](const Suspect& m) { on_suspect(worker, m); },
                        [&](const CheckpointWritten& m) { checkpoints_.written(worker, m); },
                        [&](const CheckpointUnreadable& m) { rounds_.take(worker, m); },
                        [&](const Audited& m) { on_audited(worker, m); },
                        [&](const Failed& m) { on_failed(worker, m); }},
             message);
}

void JobCore::on_hello(const Hello& message) {
  const Incarnation sender = message.stamp.sender;
  Worker* worker = context_.fleet.find(sender);
  // This includes a joining worker that an earlier head started. It holds no state, and the head
  // may use its device for another process.
  if (worker == nullptr) return fleet_.kill_unknown(sender);
  if (worker->phase == Worker::Phase::kStarting) worker->phase = Worker::Phase::kWarm;
  worker->address = message.address;
  worker->host_id = message.host_id;
  worker->channel = message.channel;
  worker->kernels = message.kernels;
  usage_.came_back(sender);
  if (worker->phase == Worker::Phase::kKnown && !context_.is_ending()) rounds_.came_back(*worker);
  // A worker that is not known yet interrupts no member if it is refused now.
  const Status kernels = rounds_.check_kernels(*worker);
  if (worker->phase == Worker::Phase::kWarm && !kernels.ok())
    refuse_kernels(*worker, kernels.error().message);
}

void JobCore::refuse_kernels(Worker& worker, const std::string& why) {
  fleet_.leave_device(worker.device, why);
  evict(worker, {.why = why, .pause = PauseCause::kChange});
}

void JobCore::on_ready(Worker& worker, const Ready& message) {
  Worker* out = rounds_.take(worker, message);
  if (out != nullptr) refuse_kernels(*out, rounds_.check_kernels(*out).error().message);
}

void JobCore::on_drained(Worker& worker, const Drained& message) {
  if (!rounds_.take(worker, message)) return;
  // A checkpoint of this version comes next, which settle() requests. A round would make its writer
  // forget the request.
  if (suspension_.is_active() || lifecycle_.is_stopping()) {
    rounds_.stay_drained();
  } else {
    rounds_.begin();
  }
}

void JobCore::on_committed(Worker& worker, const Committed& message) {
  // The effects keep the order of these calls: the line is stored before members may forget it, and
  // before a checkpoint of its version is journaled.
  const Result<bool> is_new = progress_.take(worker, message.line);
  if (!is_new) return lifecycle_.fail(is_new.error().message);
  if (!*is_new) return;
  fleet_.made_progress();
  rounds_.made_progress();
  progress_.acknowledge();
  checkpoints_.take_written();
}

void JobCore::on_evaluated(Worker& worker, const Evaluated& message) {
  const Version last = context_.last_version;
  if (const Status same = progress_.take(worker, message); !same.ok())
    return lifecycle_.fail(same.error().message);
  if (context_.last_version == last) return;
  // The members have begun a step that is never committed. In a round they learn that it is none of
  // the job. In phase Preparing they will learn it from its Install.
  checkpoints_.end_at_last_version();
  if (context_.has_members_at_work() || context_.phase == Phase::kInstalling) rounds_.begin();
}

void JobCore::on_suspect(Worker& worker, const Suspect& message) {
  const Worker* out = rounds_.take(worker, message);
  if (out == nullptr) return;
  const Worker& kept = out == &worker ? *context_.fleet.find(message.awaited) : worker;
  const DeviceId device = out->device;
  const std::string other = kept.device.node;
  const std::string why =
      "is taken out: worker " + std::to_string(worker.incarnation.value) +
      " waits in vain for worker " + std::to_string(message.awaited.value) + " again" +
      (device.node == other ? "" : "; no link between the nodes " + device.node + " and " + other);
  // Others on the node would only be found one after the other, each at the cost of a round. The
  // fault is not theirs, so they do not count.
  for (const Incarnation incarnation : fleet_.leave_node(device, other, why))
    evict(*context_.fleet.find(incarnation),
          {.why = why, .pause = PauseCause::kLink, .counts = false});
}

void JobCore::on_audited(Worker& worker, const Audited& message) {
  // During a round there are no members whose results could be compared. A step whose audit has not
  // passed is not committed, so it is repeated after the round, and audited again.
  if (!context_.has_members_at_work() || !worker.placed) return;
  if (const auto verdict = audits_.take(worker, message)) condemn(*verdict, message.step);
}

void JobCore::on_failed(Worker& worker, const Failed& message) {
  if (message.elsewhere)
    return evict(worker, {.why = "cannot work: " + message.error,
                          .cause = EndCause::kItself,
                          .way = without_digits(message.error)});
  const std::string why = message.error + " (worker " + std::to_string(worker.incarnation.value) +
                          " on " + worker.device.text() + ")";
  if (!holds_unsaved_version(worker.incarnation)) return lifecycle_.fail(why);
  fleet_.kill(worker);
  fail(why);
}

}  // namespace es::actors::intra_job
