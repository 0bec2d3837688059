#pragma once
// IntraJobCore: everything that the head of one job decides about its workers, from admission to
// the last exit.
//
// Pure: no clock, no I/O, no thread. An event and the time go in, effects come out in the order in
// which the shell must perform them; SaveRecord must be durable before a later effect is performed.
// Not thread-safe; one owner.
//
// Events     messages of workers; intra_job_events.h; tick().
// Effects    intra_job_events.h.
// Phases     Idle        no worker takes part in rounds: the job waits for devices and processes
//            Preparing   a new generation is journaled; waits for the reports of all known workers
//            Installing  target and placement are sent; waits until all members are ready
//            Normal      members run steps, or have paused at the end of a stage
//            Draining    members were asked to pause, so that a planned change wastes no work
//            Ending      the outcome is journaled; waits until every process has exited
// A change   of any kind (start, stage, scale, loss, restart of the head) is one round. Planned
//            ones drain first. Any loss, in any phase, starts a new round: the head never waits for
//            a worker that it has given up. Whoever holds the newest sealed version is the source;
//            when nobody holds one it is the newest checkpoint, if it can be read on some node
//            (saved_states.h), from which it goes to the others. Else the job holds no devices and
//            waits for a node, or, when all that was saved is gone, for a word of its user.
// Stages     The members pause by themselves where the stage ends. By then the next stage's workers
//            are warm, since the demand of a stage includes the next one's. When one is missing,
//            the members wait for it.
// Invariants - A generation is journaled before anything of it is sent, and used once.
//            - Go only when all members hold the target. Workers without ranks stand by until then.
//            - A device is given back only after its process was reaped.
//            - A ledger line, and an evaluation, is let through once; a repetition must be equal
//              bit by bit, else the job fails as non-deterministic.
//            - Messages of another generation, or of a worker that takes no part, change nothing;
//              unknown senders are killed. Facts that no placement can change are taken from any
//              known worker whatever its generation: Failed, Evaluated, CheckpointWritten.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/intra_job/audit_book.h"
#include "actors/intra_job/device_rest.h"
#include "actors/intra_job/fleet.h"
#include "actors/intra_job/intra_job_events.h"
#include "actors/intra_job/ledger_book.h"
#include "actors/intra_job/periodic_checkpoints.h"
#include "actors/intra_job/saved_states.h"
#include "actors/intra_job/stage_clock.h"
#include "actors/intra_job/stage_schedule.h"

namespace es::actors::intra_job {

enum class Phase { kIdle, kPreparing, kInstalling, kNormal, kDraining, kEnding };

// A job fails when this many worker processes in a row end on one device without a Hello.
inline constexpr int kStartAttemptsMax = 3;
// ... and when this many others were lost without one new version; a lost node is one.
inline constexpr int kLossesWithoutProgressMax = 10;
// Devices that a job had, and that are refused now, are asked for again after this.
inline constexpr Instant kDemandAgainAfter = std::chrono::seconds(1);
// A job that is to give all its devices up, and could not be saved, tries again after this.
inline constexpr Instant kSaveAgainAfter = std::chrono::seconds(30);

// A checkpoint on demand, to be written. A round may ask another worker for it while the first
// still writes: then the first has the directory, and the other is refused it.
struct PendingCheckpoint {
  std::uint64_t request = 0;
  std::string directory;
  bool make_parent = false;
  std::set<Incarnation> asked{};   // and neither answered nor ended
  std::optional<Error> why_not{};  // what one of them said
  Version at = 0;                  // not before this version
  std::string otherwise{};         // tried once the first directory has failed
  std::string first_error{};       // it has
};

// One that a worker says is written, and on whose disk.
struct WrittenCheckpoint {
  protocol::CheckpointWritten message;
  std::string node;
};

class IntraJobCore {
 public:
  IntraJobCore(Config config, Services services);
  // After a restart of the head. The workers of the record keep stepping meanwhile.
  IntraJobCore(Config config, Services services, JobRecord record, LedgerHistory history);

  // Once, before any event: the first demand; after a restart a fresh round.
  Effects start(Instant now);
  Effects on(const Event& event, Instant now);
  Effects on(const protocol::WorkerMessage& message, Instant now);
  // Call when next_tick() has passed, not much later: time limits.
  Effects tick(Instant now);
  // When the first of the time limits that run now ends; none: tick() has nothing to do.
  std::optional<Instant> next_tick() const;

  Phase phase() const { return phase_; }
  JobState state() const { return record_.state; }
  const std::string& error() const { return record_.error; }
  Generation generation() const { return record_.generation; }
  const JobRecord& record() const { return record_; }
  const Fleet& fleet() const { return fleet_; }
  const LedgerBook& ledger() const { return ledger_; }
  // The version from which the job goes on, as far as is known: members step on from it, or will.
  // Less than ledger().through() after all who held that were lost: the steps between are done
  // again.
  Version progress() const { return progress_; }
  // The members of the last placement, ascending by rank.
  const std::vector<protocol::Member>& members() const { return members_; }
  // Devices of the members as text; empty before the first placement.
  std::string placement() const { return placement_.text(); }
  // For a person: what a job that does not train, or on less than it wants, waits for; else empty.
  std::string waiting_for() const;
  std::vector<StageReport> stage_reports(Instant now) const { return clock_.reports(now); }
  // Global steps, by the last seconds (stage_clock.h); 0: the job does not step.
  double steps_per_second(Instant now) const { return clock_.steps_per_second(now); }
  // Whether this worker is to load the saved state at this path from another node.
  bool may_read(Incarnation worker, const std::string& path) const;
  // What is wrong with checkpoints though the job goes on; empty: nothing.
  std::string warning() const;
  // Stops the process when the core's own state contradicts itself.
  void check_invariants() const;

 private:
  using Pair = std::pair<Incarnation, Incarnation>;

  // Messages of workers (intra_job_core.cc, intra_job_checkpoints.cc). `worker` is in the fleet and
  // not leaving.
  void handle(const protocol::Hello& message);
  void handle(Worker& worker, const protocol::Report& message);
  void handle(Worker& worker, const protocol::Ready& message);
  void handle(Worker& worker, const protocol::Drained& message);
  void handle(Worker& worker, const protocol::Committed& message);
  void handle(Worker& worker, const protocol::Evaluated& message);
  void handle(Worker& worker, const protocol::Suspect& message);
  void handle(Worker& worker, const protocol::CheckpointWritten& message);
  void handle(Worker& worker, const protocol::CheckpointUnreadable& message);
  void handle(Worker& worker, const protocol::Audited& message);
  void handle(Worker& worker, const protocol::Failed& message);
  void handle(Worker&, const protocol::Hello&) {}  // already known
  Worker& whom_to_evict(Worker& a, Worker& b);
  void acknowledge();
  void evict_silent_workers();
  bool counts(const Worker& worker, const protocol::WorkerMessage& message) const;
  void no_answer_from(Incarnation worker);
  void take_written_checkpoints();
  void take_checkpoint(const WrittenCheckpoint& taken);
  void periodic_failed(const std::string& why);
  void drop_written_checkpoints(const std::string& why);
  void keep_suspensions();
  bool try_elsewhere(PendingCheckpoint& pending);
  void ask_elsewhere();

  // Stopping early (intra_job_stop.cc).
  bool stops() const { return !cancel_requests_.empty() && phase_ != Phase::kEnding; }
  void consider_stop();
  bool move_at_end(Version version);
  std::string unsaved() const;
  void keep_suspensions(const std::string& node);
  void say_which_suspensions_stay();
  void remove_from_nodes(const std::vector<CheckpointRef>& states, const std::string& but = "");
  void remove_replaced(const CheckpointRef& written, const std::vector<std::string>& removed);

  // What to go on from when no worker holds a version (intra_job_saved.cc).
  void handle(const NodesPresent& event);
  void handle(const NodeSaidHello& event);
  void handle(const StatesFound& event);
  std::vector<CheckpointRef> saved_states() const;
  GoOn go_on() const { return saved_.choose(saved_states()); }
  std::pair<protocol::Source, Version> restart_point() const;
  bool somebody_holds_a_version() const;
  void ask_nodes();
  bool waits_for_state() const;
  void say_what_it_waits_for();
  bool may_begin(const std::set<Incarnation>& workers) const;
  std::string state_text(const GoOn& go_on) const;
  void stand_down();
  void release_everybody();
  void give_up_gone(const CheckpointRef& next);
  std::string place_of(const Worker& worker) const;
  void load_again_without(const std::set<std::string>& nodes);
  Result<std::string> accept_loss();

  // Audits (intra_job_audit.cc).
  void begin_audits();
  void pass_audit(const protocol::Audited& message);
  void condemn(const Verdict& verdict, Version step);
  void go_back_to(Version good);
  void forget_after(Version version);
  void give_up_unfinished(Version good);
  std::vector<CheckpointRef> give_up_newer(Version good);
  void finish_rewinding();

  // Other events (intra_job_fleet.cc, intra_job_commands.cc).
  void handle(const Allocation& event);
  void handle(const DemandRefused& event);
  void handle(const WorkerExited& event);
  void handle(const WorkerLost& event);
  void handle(const ScaleCommand& event);
  void handle(const CheckpointCommand& event);
  void handle(const PauseCommand& event);
  void handle(const ResumeCommand& event);
  void handle(const CancelCommand& event);
  void handle(const RebalanceCommand& event);
  void handle(const GiveBackCommand& event);

  // Rounds (intra_job_round.cc).
  void begin_round();
  void install_when_known();
  bool all_reported() const;
  void install();
  void go();
  bool bind_to_type(const std::set<Incarnation>& workers);
  void give_up_other_types(const Allocation& event);
  void admit_warm_workers();
  void wait_for_workers();
  void place(const std::set<Incarnation>& chosen);
  protocol::Install make_install(protocol::Source source) const;
  // The newest version that a sealed worker holds, and who; none: nobody holds one.
  std::optional<std::pair<protocol::FromPeer, Version>> newest_reported() const;
  void install(protocol::Source source, Version target);
  void drain();
  bool all_stopped() const;
  bool must_leave() const;
  void consider_change();

  // Devices and processes (intra_job_fleet.cc).
  void reconcile();
  void update_demand();
  Wanted wanted_at(Version version) const;
  Wanted wanted_staff() const;
  bool staged() const { return !schedule_.empty(); }
  Version next_version() const;
  void start_worker(const DeviceId& device);
  void kill(Worker& worker);
  void kill_unknown(Incarnation incarnation);
  void release(Worker& worker);
  void evict(Worker& worker, const std::string& why);
  void is_gone(const Worker& worker, const std::string& why, bool counts = true);
  std::string refuse_types(const Wanted& wanted) const;
  void say_what_is_kept();
  void answer_scale(Status status);
  std::vector<KnownWorker> known_workers() const;

  // To no devices and back (intra_job_pause.cc).
  bool paused() const { return record_.state == JobState::kPaused; }
  void refuse_resume(const std::string& why);
  bool must_suspend() const;
  void consider_suspension();
  void ask_for_suspension();
  void suspension_written(const Status& status);
  void tell_kept(const std::string& reason);
  void suspend();
  void forget_suspension_request();
  void answer_pauses(const Status& status);
  void checkpoint_done(std::uint64_t request, Result<CheckpointTaken> result);

  // Life cycle (intra_job_commands.cc).
  void finish_if_done();
  Version evaluated_through() const;
  Version next_evaluation(Version version) const;
  bool is_evaluated_before(Version version) const;
  void end(JobState state, std::string error);
  void fail(std::string error) { end(JobState::kFailed, std::move(error)); }
  void end_if_empty();
  void remove_void_checkpoints();
  void show_state(JobState state);
  void ask_for_checkpoints();
  void ask_for_periodic();

  void save();
  void settle();
  Effects take_effects();
  void send(const Worker& worker, protocol::HeadMessage message);
  protocol::Stamp stamp() const { return {record_.generation, Incarnation{}}; }
  void log(std::string text) { effects_.push_back(LogLine{std::move(text)}); }

  // Constant.
  Config config_;
  Services services_;
  StageSchedule schedule_;

  // Journal.
  JobRecord record_;

  // Volatile.
  Phase phase_ = Phase::kIdle;
  Fleet fleet_;
  LedgerBook ledger_;
  Version progress_;
  StageClock clock_;
  std::map<Version, Digest> evaluations_;  // of their totals
  AuditBook audits_;
  // By device of a member: it cannot have spoiled versions up to this one. It joined then, or has
  // passed an audit of the step before.
  std::map<DeviceId, Version> trusted_through_;
  std::size_t stage_ = 0;                       // of the placement that runs
  std::optional<DeviceSet> demanded_;           // the last Demand
  std::optional<Instant> demand_again_at_;      // it was refused
  std::optional<std::uint64_t> scale_request_;  // not answered yet
  std::optional<DeviceSet> pin_before_scale_;
  std::set<Incarnation> exited_;  // late messages of these are no surprise
  std::map<DeviceId, int> failed_starts_;
  DeviceRest rest_;  // not while the job has no other worker
  int losses_without_progress_ = 0;
  std::vector<PendingCheckpoint> checkpoints_;
  std::set<std::uint64_t> at_end_;          // requests for the last version, not answered yet
  std::vector<WrittenCheckpoint> written_;  // the ledger is not that far yet
  std::map<std::uint64_t, std::string> first_errors_;  // of those that were written elsewhere
  bool ask_again_ = false;                             // one is to be written elsewhere
  PeriodicCheckpoints periodic_;
  std::string write_warning_, damage_warning_;
  std::vector<std::uint64_t> cancel_requests_, pause_requests_;
  // What the job becomes once its checkpoint is written: paused, or queued until it is given
  // devices.
  std::optional<JobState> suspending_;
  bool urgent_ = false;                   // what members must leave is about to end
  bool suspension_failed_ = false;        // since then
  std::optional<Instant> save_again_at_;  // because of that
  std::string kept_;                      // why devices that are called back are kept, as told
  bool resumed_ = false;                  // and not given devices yet
  bool demand_was_met_ = true;  // or could be, when the job was admitted; by an earlier head too
  std::string resume_refusal_;  // why it is paused still
  Version acknowledged_ = 0;
  SavedStates saved_;
  std::string said_to_wait_for_;  // in the log
  bool ended_ = false;

  // Of the round or placement.
  std::vector<protocol::Member> members_;
  DeviceSet placement_;  // of the members
  Version target_ = 0;
  std::optional<GoOn> loads_;        // the members load this saved state
  std::optional<Version> pause_at_;  // where the members stop by themselves
  bool waits_for_stage_ = false;     // placed only to wait: the stage's workers are not complete
  std::map<Incarnation, std::optional<Version>> reports_;
  std::set<Incarnation> ready_;
  std::set<Incarnation> drained_;
  Instant round_since_{};
  Instant drain_since_{};
  std::set<Pair> suspected_;
  std::map<Incarnation, int> named_;  // how often a worker was suspected

  // Of the call that runs.
  Instant now_{};
  Effects effects_;
};

}  // namespace es::actors::intra_job
