#pragma once
// IntraJobCore makes every decision that the head of one job makes about its workers, from
// admission to the exit of the last process. docs/PROTOCOL.md describes the protocol.
//
// The core is pure: it has no clock, no I/O and no thread. An event and the time go in, and effects
// come out in the order in which the shell must perform them. A SaveRecord must be durable before
// any later effect is performed. The core is not thread-safe and has one owner.
//
// Events    Messages of workers; the events of intra_job_events.h; tick().
// Effects   The effects of intra_job_events.h.
// Phases      Idle        No worker takes part in rounds. The job waits for devices and processes.
//             Preparing   A new generation is journaled; the core waits for the report of every
//             known
//                         worker.
//             Installing  Target and placement are sent; the core waits until all members are
//             ready. Normal      Members run steps, or have paused at the end of a stage. Draining
//             Members were asked to pause, so that a planned change wastes no work. Ending      The
//             outcome is journaled; the core waits until every process has exited.
// Changes     Every change (start, stage, scaling, loss, restart of the head) is one round. A
// planned
//             change is preceded by a drain. A loss starts a new round in every phase, so the head
//             never waits for a worker that it has given up. The source of a round is a worker that
//             holds the newest sealed version. If no worker holds a version, it is the newest saved
//             state that a node can read (saved_states.h); workers on other nodes receive its files
//             from there. Otherwise the job holds no devices and waits for a node or, if everything
//             that was saved is gone, for a decision of its user.
// Stages      The members pause by themselves where a stage ends. The workers of the next stage are
//             warm by then, because the demand of a stage includes the devices of the next one. If
//             one of them is missing, the members wait for it.
// Invariants  - A generation is journaled before any of its messages is sent, and is used once.
//             - Go is sent only after all members hold the target. Workers without ranks stay
//               available as sources until then.
//             - A device is given back only after its process was reaped.
//             - A ledger line or an evaluation is passed on once. A repetition must be equal bit by
//               bit, otherwise the job fails as non-deterministic.
//             - A message of another generation, or of a worker that takes no part in rounds,
//             changes
//               nothing. An unknown sender is killed. Facts that no placement can change (Failed,
//               Evaluated, CheckpointWritten) are accepted from a known worker in any generation.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/intra_job/core/audit_book.h"
#include "actors/intra_job/core/device_rest.h"
#include "actors/intra_job/core/fleet.h"
#include "actors/intra_job/core/intra_job_events.h"
#include "actors/intra_job/core/ledger_book.h"
#include "actors/intra_job/core/periodic_checkpoints.h"
#include "actors/intra_job/core/saved_states.h"
#include "actors/intra_job/core/stage_clock.h"
#include "actors/intra_job/core/stage_schedule.h"

namespace es::actors::intra_job {

enum class Phase { kIdle, kPreparing, kInstalling, kNormal, kDraining, kEnding };

// A job fails if this many worker processes in a row end on one device before their Hello.
inline constexpr int kStartAttemptsMax = 3;
// A job fails after this many other losses without one new version. The loss of a node counts as
// one.
inline constexpr int kLossesWithoutProgressMax = 10;
// If the cluster refuses devices that the job had before, the job asks again after this time.
inline constexpr Instant kDemandAgainAfter = std::chrono::seconds(1);
// A job that must give up all its devices and could not be saved tries again after this time.
inline constexpr Instant kSaveAgainAfter = std::chrono::seconds(30);

// A checkpoint that was requested and is not written yet. After a round another worker may be asked
// for it while the first one still writes. Then the first worker has created the directory, and the
// second one is refused.
struct PendingCheckpoint {
  std::uint64_t request = 0;
  std::string directory;
  bool make_parent = false;
  std::set<Incarnation> asked{};   // asked workers that have neither answered nor ended
  std::optional<Error> why_not{};  // the error that one of them reported
  Version at = 0;                  // the oldest version that may be written
  std::string otherwise{};         // directory to try after the first one has failed
  std::string first_error{};       // error of the first directory, once it has failed
};

// A checkpoint that a worker has reported as written, and the node on whose disk it lies.
struct WrittenCheckpoint {
  protocol::CheckpointWritten message;
  std::string node;
};

class IntraJobCore {
 public:
  IntraJobCore(Config config, Services services);
  // Continues a job after a restart of the head. The workers of the record train on meanwhile.
  IntraJobCore(Config config, Services services, JobRecord record, LedgerHistory history);

  // Call once, before any event. Returns the first demand or, after a restart, the messages of a
  // new round.
  Effects start(Instant now);
  Effects on(const Event& event, Instant now);
  Effects on(const protocol::WorkerMessage& message, Instant now);
  // Call soon after next_tick() has passed; it acts on time limits that have ended.
  Effects tick(Instant now);
  // Returns the end of the earliest running time limit; nullopt: tick() has nothing to do.
  std::optional<Instant> next_tick() const;

  Phase phase() const { return phase_; }
  JobState state() const { return record_.state; }
  const std::string& error() const { return record_.error; }
  Generation generation() const { return record_.generation; }
  const JobRecord& record() const { return record_; }
  const Fleet& fleet() const { return fleet_; }
  const LedgerBook& ledger() const { return ledger_; }
  // The version from which the job continues, as far as the head knows. It is less than
  // ledger().through() after all workers that held the newest version were lost; then the steps in
  // between are computed again.
  Version progress() const { return progress_; }
  // The members of the last placement, ascending by rank.
  const std::vector<protocol::Member>& members() const { return members_; }
  // Devices of the members as text; empty before the first placement.
  std::string placement() const { return placement_.text(); }
  // Text for users that says what the job waits for, if it does not train or trains on fewer
  // devices than it wants; otherwise empty.
  std::string waiting_for() const;
  std::vector<StageReport> stage_reports(Instant now) const { return clock_.reports(now); }
  // Global steps per second, measured over the last seconds (stage_clock.h); 0 if the job stands.
  double steps_per_second(Instant now) const { return clock_.steps_per_second(now); }
  // Returns whether this worker has to load the saved state at this path from another node.
  bool may_read(Incarnation worker, const std::string& path) const;
  // Text for users about problems with checkpoints that do not stop the job; empty: none.
  std::string warning() const;
  // Aborts the process if the state of the core contradicts itself.
  void check_invariants() const;

 private:
  using Pair = std::pair<Incarnation, Incarnation>;

  // Messages of workers (intra_job_core.cc, intra_job_checkpoints.cc). `worker` is in the fleet. It
  // is not leaving, except in handle(CheckpointWritten).
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
  void handle(Worker&, const protocol::Hello&) {}  // the worker is already known
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

  // Stopping before the last version (intra_job_stop.cc).
  bool stops() const { return !cancel_requests_.empty() && phase_ != Phase::kEnding; }
  void consider_stop();
  bool move_at_end(Version version);
  std::string unsaved() const;
  void keep_suspensions(const std::string& node);
  void say_which_suspensions_stay();
  void remove_from_nodes(const std::vector<CheckpointRef>& states, const std::string& but = "");
  void remove_replaced(const CheckpointRef& written, const std::vector<std::string>& removed);

  // The restart point when no worker holds a version (intra_job_saved.cc).
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
  // The newest version that a sealed worker reported, and that worker; nullopt: no worker holds
  // one.
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

  // Giving up all devices and coming back (intra_job_pause.cc).
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

  // Constant after construction.
  Config config_;
  Services services_;
  StageSchedule schedule_;

  // Journaled by SaveRecord.
  JobRecord record_;

  // Volatile: lost when the head ends.
  Phase phase_ = Phase::kIdle;
  Fleet fleet_;
  LedgerBook ledger_;
  Version progress_;
  StageClock clock_;
  std::map<Version, Digest> evaluations_;  // digests of the totals
  AuditBook audits_;
  // For each device of a member, the newest version that the device cannot have spoiled: the
  // version at which it joined, or the one after the last audited step that it passed.
  std::map<DeviceId, Version> trusted_through_;
  std::size_t stage_ = 0;              // stage of the current placement
  std::optional<DeviceSet> demanded_;  // devices of the last Demand; nullopt: lifted or not sent
  std::optional<Instant> demand_again_at_;      // time to repeat a refused Demand
  std::optional<std::uint64_t> scale_request_;  // scale request that is not answered yet
  std::optional<DeviceSet> pin_before_scale_;
  std::set<Incarnation> exited_;  // late messages of these workers are expected and ignored
  std::map<DeviceId, int> failed_starts_;
  DeviceRest rest_;  // applies only while the job has another known worker
  int losses_without_progress_ = 0;
  std::vector<PendingCheckpoint> checkpoints_;
  std::set<std::uint64_t> at_end_;  // unanswered requests for a checkpoint of the last version
  std::vector<WrittenCheckpoint> written_;  // reported, but newer than the ledger
  // By request: the error of the first directory, for a checkpoint that went to the second one.
  std::map<std::uint64_t, std::string> first_errors_;
  bool ask_again_ = false;  // a checkpoint has to be requested in its second directory
  PeriodicCheckpoints periodic_;
  std::string write_warning_, damage_warning_;
  std::vector<std::uint64_t> cancel_requests_, pause_requests_;
  // The state that the job takes after its checkpoint is written: paused, or queued until it is
  // given devices.
  std::optional<JobState> suspending_;
  bool urgent_ = false;                   // the devices that members must leave are about to end
  bool suspension_failed_ = false;        // saving the job failed since the last allocation
  std::optional<Instant> save_again_at_;  // when to try again after such a failure
  std::string kept_;      // the reason last reported for keeping devices that were called back
  bool resumed_ = false;  // resumed, and not given any device since
  // The demand was met once. This is assumed for a job that an earlier head admitted.
  bool demand_was_met_ = true;
  std::string resume_refusal_;  // why the job is still paused after `resume`
  Version acknowledged_ = 0;
  SavedStates saved_;
  std::string said_to_wait_for_;  // the last text in the log about what the job waits for
  bool ended_ = false;

  // State of the round or of the placement.
  std::vector<protocol::Member> members_;
  DeviceSet placement_;  // devices of the members
  Version target_ = 0;
  std::optional<GoOn> loads_;        // the saved state that members load in this round
  std::optional<Version> pause_at_;  // the version at which the members pause by themselves
  bool waits_for_stage_ = false;     // this placement only waits: workers of the stage are missing
  std::map<Incarnation, std::optional<Version>> reports_;
  std::set<Incarnation> ready_;
  std::set<Incarnation> drained_;
  Instant round_since_{};
  Instant drain_since_{};
  std::set<Pair> suspected_;
  std::map<Incarnation, int> named_;  // how often each worker was named in a Suspect

  // State of the running call.
  Instant now_{};
  Effects effects_;
};

}  // namespace es::actors::intra_job
