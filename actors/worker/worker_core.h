#pragma once
// WorkerCore: everything that one worker process decides in the step and commit protocol.
//
// Pure: no clock, no I/O, no thread. An event and the time go in, effects come out in the order in
// which the shell must perform them. Not thread-safe; one owner.
//
// Events     messages of the head and of peers; completions of the engine; links; tick().
// Effects    worker_events.h.
// Phases     Sealed     promised a generation and reported; nothing older can change this worker
//            Loading    gets the target version: waits for a State or for the engine
//            Ready      holds the target; waits for Go
//            Active     runs steps
//            Paused     stopped at a common boundary (drain or planned stop); waits for Prepare
//            Failed     told the head that the job cannot go on; waits for Release
//            Exited     released, or aborted; every event is ignored
// Invariants - `version()` names one whole version (parameters, optimizer, all contexts) or none.
//              It changes only when the engine has completed a load or an update.
//            - After Report(g) nothing of a generation before g is counted, staged or committed.
//              An update or load that has begun is completed first, and the report says so.
//            - No update begins before all buckets of the step are staged.
//            - A step message of the promised generation is never dropped because it is early: it
//              waits until this worker is active and at that step.
//            - A rank is summed once per bucket and step (BucketSum).
//            - An audited step is not committed before the head says that its audit has passed.
//            - Ledger lines up to version(), and evaluations, that the head has not acknowledged
//              are kept.
// Memory     up to one step of early messages, and what is not acknowledged: it grows while the
//            head is away.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/protocol/instant.h"
#include "actors/protocol/messages.h"
#include "actors/worker/bucket_sum.h"
#include "actors/worker/worker_events.h"

namespace es::actors::worker {

struct WorkerConfig {
  Incarnation self;
  DeviceId device;
  std::string address;  // where peers reach this worker
  std::string host_id;
  protocol::ChannelPoint channel{};
  std::uint32_t max_p = 1;
  bool sum_per_worker = false;  // level D0: a worker's part are all of its ranks
  Version eval_every = 0;       // versions between evaluations; 0 = only at the end
  Version audit_every = 0;      // steps between audits (protocol/audit.h); 0 = none
  // Without progress for this long a worker that has done its part suspects those it waits for; a
  // job of long steps waits for kPatienceSteps of them. Who loads a version waits for bytes.
  Instant step_timeout = std::chrono::seconds(30);
  Instant fetch_timeout = std::chrono::seconds(10);
  // The same for a checkpoint on another node's disk, which is read there and verified first.
  Instant pull_timeout = std::chrono::minutes(2);
  // ... and for this long when the link to whom it waits for broke: what was sent may be lost.
  Instant link_timeout = std::chrono::milliseconds(2500);
};

// Mean steps, or times that the own part of the running step took, that a slow peer is waited for.
inline constexpr int kPatienceSteps = 10;

enum class Phase { kSealed, kLoading, kReady, kActive, kPaused, kFailed, kExited };

class WorkerCore {
 public:
  explicit WorkerCore(WorkerConfig config) : config_(std::move(config)) {}

  // The engine is warm, or the link to the head came up again: Hello.
  Effects hello() const;

  Effects on(const protocol::HeadMessage& message, Instant now);
  Effects on(const protocol::PeerMessage& message, Instant now);
  Effects on(const EngineEvent& event, Instant now);
  Effects on(const LinkEvent& event, Instant now);
  Effects on(const PullEvent& event, Instant now);
  // Call about once per second; suspects peers that make no progress.
  Effects tick(Instant now);

  Phase phase() const { return phase_; }
  Generation generation() const { return generation_; }
  std::optional<Version> version() const { return version_; }
  // Of the last Install.
  Version target() const { return install_.target; }
  RankRange ranks() const { return ranks_; }
  // Of the last Install; empty before the first.
  const std::vector<protocol::Member>& members() const { return install_.members; }
  // Stops the process when the core's own state contradicts itself.
  void check_invariants() const;

 private:
  // The one operation of the engine that changes version_, while it runs.
  enum class Operation { kNone, kLoad, kUpdate };

  // Messages of the head (worker_round.cc).
  void handle(const protocol::Prepare& message);
  void handle(const protocol::Install& message);
  void handle(const protocol::Go& message);
  void handle(const protocol::Release& message);
  void handle(const protocol::Drain& message);
  void handle(const protocol::Acknowledge& message);
  void handle(const protocol::WriteCheckpoint& message);
  void handle(const protocol::Audit& message);
  void handle(const protocol::AuditPassed& message);
  void seal();
  void tell_evaluations();
  void load_target();
  void report_ready();
  void write_checkpoints();
  void forget_lines_through(Version version);

  // Messages of peers (worker_step.cc).
  void handle(const protocol::Contrib& message);
  void handle(const protocol::Reduced& message);
  void handle(const protocol::Fetch& message);
  void handle(const protocol::State& message);
  void take(const protocol::PeerMessage& message);
  bool must_wait(const protocol::PeerMessage& message) const;
  bool well_formed(const protocol::Contrib& message) const;
  bool well_formed(const protocol::Reduced& message) const;
  void reconsider_waiting();
  void count(const protocol::Contrib& contrib);
  void stage(const protocol::Reduced& reduced);

  // Completions of the engine (worker_step.cc, worker_round.cc).
  void handle(const VersionLoaded& event);
  void handle(const PartSummed& event);
  void handle(const BucketReduced& event);
  void handle(const UpdateApplied& event);
  void handle(const AuditDone& event);
  void handle(const VersionExported& event);
  void handle(const EvaluationDone& event);
  void handle(const CheckpointFinished& event);
  void handle(const DataUnreadable& event);
  void handle(const CheckpointDamaged& event);
  void handle(const EngineFailed& event);
  // Ends operation_; true when a Prepare had waited for that, and has been obeyed now.
  bool end_operation();
  void handle(const BytesArrived& event);
  void handle(const PullProgress& event);
  void handle(const StatePulled& event);
  void handle(const PullFailed& event);
  bool pulls(Generation generation) const;
  void give_up_pull();
  void handle(const LinkLost& event);
  bool waits_in_vain_for(Incarnation peer) const;
  void suspect(Incarnation awaited);

  // Starts whatever the state allows: pause, evaluation, local steps, update.
  void advance();
  bool all_staged() const { return staged_.size() == install_.bucket_count; }
  void start_update();
  void start_local_steps();
  void start_asked_audit();
  bool audit_holds() const;
  std::set<Incarnation> awaited_for_audit() const;
  bool pause_is_due() const;
  bool evaluation_is_due() const;
  bool own_part_is_done() const;
  std::set<Incarnation> awaited() const;
  void reset_step();

  const protocol::Member& owner_of(std::uint32_t bucket) const;
  const protocol::Member* member(Incarnation incarnation) const;
  bool at_last() const { return version_ == install_.last_version; }
  protocol::Stamp stamp() const { return {generation_, config_.self}; }
  void send_head(protocol::WorkerMessage message);
  void send_peer(const protocol::Member& to, protocol::PeerMessage message);
  void anomaly(std::string text);
  void abort(std::string reason);
  Effects take_effects();

  // Constant.
  WorkerConfig config_;

  // Across generations.
  Phase phase_ = Phase::kSealed;
  Generation generation_;
  std::optional<Version> version_;
  Operation operation_ = Operation::kNone;
  Instant mean_step_{};                            // of recent steps; 0 before the first
  std::optional<Generation> prepare_pending_;      // arrived while operation_ runs; the newest
  std::map<Version, protocol::LedgerLine> lines_;  // not acknowledged, all <= version_
  // (request, directory): the head asks again after each round, none is written twice.
  std::set<std::pair<std::uint64_t, std::string>> checkpoints_begun_;
  // Made here, and not known to have reached the head: it may be away.
  std::map<Version, protocol::Evaluated> evaluations_;
  std::string failure_;  // of the job; not empty exactly in Failed

  // Of the promised generation; reset when it is sealed.
  bool installed_ = false;
  protocol::Install install_;
  RankRange ranks_;
  bool drain_wanted_ = false;
  bool drain_agreed_ = false;  // the flag came back with bucket 0: all stop at this version
  bool evaluating_ = false;
  bool stalled_ = false;  // a peer's data is gone: only a new round helps
  std::map<std::uint64_t, protocol::WriteCheckpoint> checkpoints_asked_;  // by request
  std::vector<protocol::PeerMessage> waiting_;       // early ones, in order of arrival
  std::vector<protocol::LedgerLine> loading_lines_;  // came with the State that is being loaded
  std::map<Incarnation, protocol::Fetch> fetches_;   // being served
  struct Break {
    Instant at{};
    std::optional<Version> version;  // held then
  };
  std::map<Incarnation, Break> broken_links_;  // the newest of each peer
  Instant last_progress_{};
  bool suspected_ = false;                      // in this step
  std::optional<Version> audit_passed_;         // the newest
  std::optional<protocol::Audit> audit_asked_;  // not begun yet: the version is not reached

  // Of the step `version_`; reset at commit.
  bool steps_started_ = false;
  Instant step_begin_{};
  Instant own_part_{};  // how long the own local steps took; 0 until they are done
  std::map<std::uint32_t, BucketSum> sums_;                  // owned buckets, by number
  std::map<std::uint32_t, std::uint32_t> own_ranks_summed_;  // by bucket
  std::map<std::uint32_t, protocol::Reduced> staged_;        // by bucket

  // Of the call that runs.
  Instant now_{};
  Effects effects_;
};

}  // namespace es::actors::worker
