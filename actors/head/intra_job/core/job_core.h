#pragma once
// JobCore makes every decision that the head of one job makes about its workers, from admission to
// the exit of the last process. docs/PROTOCOL.md describes the protocol.
//
// The core is pure: it has no clock, no I/O and no thread. An event and the time go in, and effects
// come out in the order in which the shell must perform them. A SaveRecord must be durable before
// any later effect is performed. The core is not thread-safe and has one owner.
//
// It passes each event to the part that it concerns, and draws the consequences afterwards
// (settle()). Each part owns its state; a part knows only those above it in this list:
//
//   JobContext     configuration, journaled record, fleet, phase, effects of the running call
//   RunProgress    ledger, evaluations, time in each placement
//   RestartPoint   the saved state from which the job continues if no worker holds a version
//   DeviceDemand   which devices the job asks for
//   FleetControl   starts and ends processes, judges losses
//   Checkpoints    which checkpoints are written, kept and removed
//   Audits         which device computes wrongly
//   Rounds         generation, placement, the round Prepare to Go
//   DecidedSteps   when members may update a step whose version was evaluated
//   Suspension     gives up all devices, and continues later
//   UsageLimits    how long the job has held devices, and what they have cost
//   Lifecycle      the end of the job
//
// Events      Messages of workers; the events of job_events.h; tick().
// Effects     The effects of job_events.h.
// Changes     Every change (start, stage, scaling, loss, restart of the head) is one round. A
//             planned change is preceded by a drain. A loss starts a new round in every phase, so
//             the head never waits for a worker that it has given up. The source of a round is a
//             worker that holds the newest sealed version. If no worker holds a version, it is the
//             restart point; workers on other nodes receive its files from there. Otherwise the job
//             holds no devices and waits for a node or, if everything that was saved is gone, for a
//             decision of its user.
// Invariants  A message of another generation, or of a worker that takes no part in rounds, changes
//             nothing. An unknown sender is killed. Facts that no placement can change (Failed,
//             Evaluated, CheckpointWritten) are accepted from a known worker in any generation. The
//             parts state their own invariants.
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/head/intra_job/core/audits.h"
#include "actors/head/intra_job/core/checkpoints.h"
#include "actors/head/intra_job/core/decided_steps.h"
#include "actors/head/intra_job/core/device_demand.h"
#include "actors/head/intra_job/core/fleet_control.h"
#include "actors/head/intra_job/core/job_context.h"
#include "actors/head/intra_job/core/job_events.h"
#include "actors/head/intra_job/core/lifecycle.h"
#include "actors/head/intra_job/core/restart_point.h"
#include "actors/head/intra_job/core/rounds.h"
#include "actors/head/intra_job/core/run_progress.h"
#include "actors/head/intra_job/core/suspension.h"
#include "actors/head/intra_job/core/usage_limits.h"

namespace es::actors::intra_job {

class JobCore {
 public:
  // A new job. `record` contains what was fixed at its admission.
  JobCore(Config config, Services services, JobRecord record = {});
  // Continues a job after a restart of the head. The workers of the record train on meanwhile.
  JobCore(Config config, Services services, JobRecord record, LedgerHistory history);
  JobCore(const JobCore&) = delete;
  JobCore& operator=(const JobCore&) = delete;

  // Call once, before any event. Returns the first demand or, after a restart, the messages of a
  // new round.
  Effects start(Instant now);
  Effects on(const Event& event, Instant now);
  Effects on(const protocol::WorkerMessage& message, Instant now);
  // Call soon after next_tick() has passed; it acts on time limits that have ended.
  Effects tick(Instant now);
  // Returns the end of the earliest running time limit; nullopt: tick() has nothing to do.
  std::optional<Instant> next_tick() const;

  Phase phase() const { return context_.phase; }
  JobState state() const { return context_.record.state; }
  const std::string& error() const { return context_.record.error; }
  Generation generation() const { return context_.record.generation; }
  const JobRecord& record() const { return context_.record; }
  const Fleet& fleet() const { return context_.fleet; }
  const LedgerBook& ledger() const { return progress_.ledger(); }
  const EvaluationBook& evaluations() const { return progress_.evaluations(); }
  // The version with which the job ends, as far as it is known.
  Version last_version() const { return context_.last_version; }
  // The version from which the job continues (RunProgress::version()).
  Version progress() const { return progress_.version(); }
  // The members of the last placement, ascending by rank.
  const std::vector<protocol::Member>& members() const { return context_.members; }
  // Devices of the members as text; empty before the first placement.
  std::string placement() const { return context_.placement.text(); }
  // Text for users that says what the job waits for, if it does not train or trains on fewer
  // devices than it wants; otherwise empty.
  std::string waiting_for() const;
  // The largest number of devices that the job could use now: those of its stage or of its user's
  // choice, otherwise the limit of its spec; 0 while it is paused and when it is over.
  std::uint32_t devices_wanted() const;
  std::vector<StageReport> stage_reports(Instant now) const {
    return progress_.clock().reports(now);
  }
  // Global steps per second, measured over the last seconds (stage_clock.h); 0 if the job stands.
  double steps_per_second(Instant now) const { return progress_.clock().steps_per_second(now); }
  const StepTimes& step_times() const { return progress_.clock().step_times(); }
  // What happened since this head has the job.
  const std::array<PauseReport, kPauseCauses>& pauses() const { return progress_.clock().pauses(); }
  std::vector<SpanReport> spans(Instant now) const { return progress_.clock().spans(now); }
  const std::vector<ProgressPoint>& progress_points() const { return progress_.clock().progress(); }
  const CheckpointCounts& checkpoint_counts() const { return checkpoints_.counts(); }
  std::uint64_t start_retries() const { return fleet_.start_retries(); }
  // Returns whether this worker has to load the saved state at this path from another node.
  bool may_read(Incarnation worker, const std::string& path) const {
    return rounds_.may_read(worker, path);
  }
  // Text for users about problems with checkpoints that do not stop the job; empty: none.
  std::string warning() const;
  // Aborts the process if the state of the core contradicts itself.
  void check_invariants() const;

 private:
  JobCore(Config config, Services services, JobRecord record, const LedgerHistory& history,
          bool is_new);

  // Messages of workers (job_core.cc). `worker` is in the fleet. It is not leaving, unless the
  // message is CheckpointWritten.
  void take(Worker& worker, const protocol::WorkerMessage& message);
  // A process is up, or has connected again.
  void on_hello(const protocol::Hello& message);
  // A member holds the target. The last one lets all go.
  void on_ready(Worker& worker, const protocol::Ready& message);
  // A member has stopped at the common boundary, so the round begins.
  void on_drained(Worker& worker, const protocol::Drained& message);
  // A ledger line: the first report is stored, and others are compared with it.
  void on_committed(Worker& worker, const protocol::Committed& message);
  // An evaluation, which is stored or compared in the same way. It may end the job.
  void on_evaluated(Worker& worker, const protocol::Evaluated& message);
  // A member waits in vain for another: a new round, perhaps without one of the two.
  void on_suspect(Worker& worker, const protocol::Suspect& message);
  // A digest of an audited step is compared with those of others.
  void on_audited(Worker& worker, const protocol::Audited& message);
  // The job continues on another device, or fails.
  void on_failed(Worker& worker, const protocol::Failed& message);
  bool counts(const Worker& worker, const protocol::WorkerMessage& message) const;
  void refuse_kernels(Worker& worker, const std::string& why);

  // Other events (job_core_events.cc).
  void on_allocation(const Allocation& event);         // the devices that the job may hold
  void on_demand_refused(const DemandRefused& event);  // the cluster can never meet the demand
  void on_worker_exited(const WorkerExited& event);  // the process is reaped and its device is free
  void on_worker_lost(const WorkerLost& event);      // a worker is silent, and is taken out
  void on_budget_command(const BudgetCommand& event);       // may continue the job
  void on_rebalance_command();                              // other ranks on the same devices
  void on_give_back_command(const GiveBackCommand& event);  // the members on these devices leave
  void on_nodes_present(const NodesPresent& event);     // states on other nodes cannot be read now
  void on_node_said_hello(const NodeSaidHello& event);  // what it can read is asked again
  void on_states_found(const StatesFound& event);       // what a node can read
  void evict(Worker& worker, const Loss& loss);
  void lose(const Worker& worker, const Loss& loss);
  void fail(std::string why);
  // Whether another worker than this one holds a version that is not on a disk yet.
  bool holds_unsaved_version(Incarnation besides = {}) const;

  // The way back after an audit (job_core_rewind.cc).
  void condemn(const Verdict& verdict, Version step);
  void go_back_to(Version good);
  void finish_rewinding();

  RoundParts parts();
  void adopt_known_workers();
  void settle();
  Effects take_effects();

  JobContext context_;
  RunProgress progress_;
  RestartPoint restart_;
  DeviceDemand demand_;
  FleetControl fleet_;
  Checkpoints checkpoints_;
  Audits audits_;
  Rounds rounds_;
  DecidedSteps decided_;
  Suspension suspension_;
  UsageLimits usage_;
  Lifecycle lifecycle_;
};

}  // namespace es::actors::intra_job
