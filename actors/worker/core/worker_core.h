#pragma once
// WorkerCore makes all decisions of one worker process in the step and commit protocol.
//
// It has no clock, no I/O and no thread. An event and the time go in, and effects come out in the
// order in which the shell must perform them. Not thread-safe; it has one owner.
//
// Events: messages of the head and of peers, results of the engine, changes of links, tick().
// Effects: see worker_events.h.
//
// Phases:
//   Sealed    It has promised a generation and reported; nothing older can change this worker.
//   Loading   It obtains the target version and waits for a State or for the engine.
//   Ready     It holds the target version and waits for Go.
//   Active    It runs steps.
//   Paused    It has stopped at a common step boundary (drain, planned stop); waits for Prepare.
//   Failed    It has told the head that the job cannot continue, and waits for Release.
//   Exited    It was released or has aborted; every event is ignored.
//
// Invariants:
// * version() names one whole version (parameters, optimizer, all contexts) or none. It changes
//   only when the engine has completed a load or an update.
// * After Report(g), nothing of a generation before g is counted, staged or committed. An update or
//   load that has already begun is completed first, and the report contains its version.
// * No update begins before all buckets of the step are staged.
// * A step message of the promised generation is never dropped because it is early. It waits until
//   this worker is active and has reached that step.
// * A rank is summed once for each bucket and step (BucketSum).
// * In a job with sharded state no shard changes before owner and buddy of every bucket hold its
// sum
//   (worker_shards.cc). So while one holder of each bucket lives, either all shards of a version
// can
//   be found or those of the next one can be made.
// * An audited step is not committed before the head says that its audit has passed, and one whose
//   version is evaluated not before the head says what the evaluation has decided.
// * Ledger lines up to version() and evaluations are kept until the head has acknowledged them.
//
// Memory: early messages of at most one step, and what the head has not acknowledged; this part
// grows while the head is away.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/base/protocol/core/instant.h"
#include "actors/base/protocol/core/messages.h"
#include "actors/worker/core/bucket_sum.h"
#include "actors/worker/core/worker_events.h"
#include "proto/base/sum_routes.h"

namespace es::actors::worker {

struct WorkerConfig {
  Incarnation self;
  DeviceId device;
  std::string address;  // where peers reach this worker
  std::string host_id;
  protocol::ChannelPoint channel{};
  std::string kernels{};  // as in Hello
  std::uint32_t max_p = 1;
  bool sum_per_worker = false;  // level D0: a part contains all ranks of a worker
  Version eval_every = 0;       // versions between evaluations; 0 means only at the end
  Version audit_every = 0;      // steps between audits (protocol/audit.h); 0 means none
  Version decided_every = 0;    // versions between decisions (protocol/decisions.h); 0 means none
  bool may_stop = false;        // the job may end with any version that decides
  // A worker that has completed its own part suspects the peers that it waits for after this time
  // without progress. If steps take long, it waits for kPatienceSteps steps instead. A worker that
  // loads a version suspects the source if no bytes arrive for fetch_timeout.
  Instant step_timeout = std::chrono::seconds(30);
  Instant fetch_timeout = std::chrono::seconds(10);
  // The same limit for a checkpoint on another node's disk, which that node first reads and
  // verifies.
  Instant pull_timeout = std::chrono::minutes(2);
  // The same limit after the link to the awaited peer broke, because messages may have been lost.
  Instant link_timeout = std::chrono::milliseconds(2500);
};

// A worker waits for a slow peer at least this many times the mean duration of a step, or the
// duration of its own part of the running step.
inline constexpr int kPatienceSteps = 10;
// How many times the limit of a broken link a link may need until it is there.
inline constexpr int kFirstLinkTimeouts = 2;

enum class Phase { kSealed, kLoading, kReady, kActive, kPaused, kFailed, kExited };

class WorkerCore {
 public:
  explicit WorkerCore(WorkerConfig config) : config_(std::move(config)) {}

  // Returns Hello. Call it when the engine is warm, and when the link to the head comes up again.
  Effects hello() const;
  // The same for a worker whose engine could not be set up. Returns Failed.
  Effects setup_failed(const std::string& error);

  Effects on(const protocol::HeadMessage& message, Instant now);
  Effects on(const protocol::PeerMessage& message, Instant now);
  Effects on(const EngineEvent& event, Instant now);
  Effects on(const LinkEvent& event, Instant now);
  Effects on(const PullEvent& event, Instant now);
  // Call it about once per second. It suspects peers that make no progress.
  Effects tick(Instant now);

  Incarnation incarnation() const { return config_.self; }
  Phase phase() const { return phase_; }
  Generation generation() const { return generation_; }
  std::optional<Version> version() const { return version_; }
  // The target of the last Install.
  Version target() const { return install_.target; }
  RankRange ranks() const { return ranks_; }
  // The members of the last Install; empty before the first.
  const std::vector<protocol::Member>& members() const { return install_.members; }
  // Ends the process if the state of the core contradicts itself.
  void check_invariants() const;

 private:
  // The operation of the engine that changes version_ and is running now. There is at most one.
  enum class Operation { kNone, kLoad, kUpdate };

  // Messages of the head (worker_round.cc).
  void on_prepare(const protocol::Prepare& message);  // promises a generation, and reports
  void on_install(const protocol::Install& message);  // loads the target unless it holds it
  void on_go(const protocol::Go& message);            // all members hold the target: steps begin
  void on_release(const protocol::Release& message);  // the end of the process
  void on_drain(const protocol::Drain& message);      // wishes to stop, with its part of bucket 0
  void on_acknowledge(const protocol::Acknowledge& message);  // forgets what the head has stored
  void on_write_checkpoint(const protocol::WriteCheckpoint& message);  // now, or when it is due
  void on_audit_request(const protocol::Audit& message);       // computes a rank of this step again
  void on_audit_passed(const protocol::AuditPassed& message);  // the audited step may be committed
  void on_decided(const protocol::Decided& message);           // the same for a decided step
  void seal();
  void tell_evaluations();
  void load_target();
  void report_ready();
  void write_checkpoints();
  void forget_lines_through(Version version);

  // Sharded state (worker_shards.cc).
  void on_complete(const protocol::Complete& message);  // owner and buddy hold the sum of a bucket
  void on_updated(const protocol::Updated& message);    // parameters that others have computed
  void on_fetch_shards(const protocol::FetchShards& message);  // exports parts of its version
  void on_shards(const protocol::Shards& message);             // parts that it has asked for
  void on_sum_held(const SumHeld& event);                // tells all members that both hold the sum
  void on_shards_updated(const ShardsUpdated& event);    // tells the others the new parameters
  void on_shards_exported(const ShardsExported& event);  // answers a FetchShards
  void on_shards_taken(const ShardsTaken& event);        // the senders may forget them
  void on_state_digested(const StateDigested& event);    // completes the ledger line
  bool well_formed(const protocol::Complete& message) const;
  bool well_formed(const protocol::Updated& message) const;
  bool sharded() const { return !install_.holders.empty(); }
  // A member that is alone holds everything, and steps as in a job without shards.
  bool divided() const { return sharded() && install_.members.size() > 1; }
  bool is_own(std::uint32_t bucket) const;  // whether this worker shall hold the moments
  std::vector<std::uint32_t> own_shards() const;
  std::vector<std::uint32_t> held_shards() const { return {held_.begin(), held_.end()}; }
  std::vector<std::uint32_t> buckets_besides(const std::set<std::uint32_t>& some) const;
  void hold_sum(const protocol::Reduced& reduced);
  void announce(const protocol::Reduced& sum, const protocol::Bytes& squares);
  void stage(const protocol::Complete& complete);
  bool all_complete() const { return complete_.size() == install_.bucket_count; }
  void start_shard_update();
  void start_shard_commit();
  void install_shards();
  void make_shards(std::vector<std::uint32_t> shared = {});
  void fetch_missing_shards();
  void fetch(const protocol::FromPeer& from, protocol::FetchShards wanted);
  void load_pieces();
  void keep_line(const protocol::LedgerLine& line);
  void complete_line();
  void gather_shards(std::optional<protocol::WriteCheckpoint> asked = {});
  void supply_gathered(Version version);
  void suspect_owners();
  bool take_gathered(const protocol::Shards& message);
  void ask_owner(Incarnation owner, protocol::FetchShards wanted);
  void forget_begun(const std::vector<protocol::WriteCheckpoint>& asked);
  bool has_reached(Version version) const;
  bool may_reach(Version version) const;
  void reconsider_fetches();

  // Messages of peers (worker_step.cc).
  void on_contrib(const protocol::Contrib& message);  // a part of a sum made here is counted
  void on_reduced(const protocol::Reduced& message);  // the sum of a bucket is staged
  void on_fetch(const protocol::Fetch& message);      // exports its version for another member
  void on_state(const protocol::State& message);      // loads the version that it has fetched
  void take(const protocol::PeerMessage& message);
  bool must_wait(const protocol::PeerMessage& message) const;
  bool well_formed(const protocol::Contrib& message) const;
  bool well_formed(const protocol::Reduced& message) const;
  void reconsider_waiting();
  void pass_on(protocol::Contrib contrib);
  void count(const protocol::Contrib& contrib);
  void plan_routes();
  const std::vector<PartialSum>& sums_of(std::uint32_t bucket) const;
  const PartialSum* sum_with(const protocol::Contrib& contrib, Incarnation sender) const;
  std::set<Incarnation> missing_senders(std::uint32_t bucket) const;
  void stage(const protocol::Reduced& reduced);

  // Results of the engine (worker_step.cc, worker_round.cc, worker_audit.cc).
  void on_version_loaded(const VersionLoaded& event);  // holds the target: ready
  bool is_of_this_step(const auto& result) const;
  void on_part_summed(const PartSummed& event);            // its own part goes to where it is added
  void on_steps_held_up(const StepsHeldUp& event);         // waits for others in its own part
  void on_partial_sum_made(const PartialSumMade& event);   // the same for a sum of several parts
  void on_bucket_reduced(const BucketReduced& event);      // its own bucket is summed: tells all
  void on_update_applied(const UpdateApplied& event);      // the commit
  void on_audit_done(const AuditDone& event);              // reports the digest of an audited rank
  void on_version_exported(const VersionExported& event);  // answers a Fetch
  void on_evaluation_done(const EvaluationDone& event);    // reports it; the next step may begin
  void on_checkpoint_finished(const CheckpointFinished& event);  // reports it, or why there is none
  void on_data_unreadable(const DataUnreadable& event);        // suspects the peer whose data it is
  void on_checkpoint_damaged(const CheckpointDamaged& event);  // asks for another source
  void on_engine_failed(const EngineFailed& event);  // fails, which is final for this worker
  // Ends operation_. Returns true if a Prepare had waited for this and has now been obeyed.
  bool end_operation();
  void on_bytes_arrived(const BytesArrived& event);  // progress of a peer that it waits for
  void on_pull_progress(const PullProgress& event);  // progress of the node that it reads from
  void on_state_pulled(const StatePulled& event);    // loads the files that it has fetched
  void on_pull_failed(const PullFailed& event);      // asks for another source
  bool pulls(Generation generation) const;
  void give_up_pull();
  void on_link_lost(const LinkLost& event);        // messages may be lost: a shorter limit
  void on_link_awaited(const LinkAwaited& event);  // a link that was never there
  void on_link_made(const LinkMade& event);        // the limit for the first link ends
  bool waits_in_vain_for(Incarnation peer) const;
  void suspect(Incarnation awaited);

  // Starts what the state allows: a pause, an evaluation, local steps or the update.
  void advance();
  bool all_staged() const {
    return divided() ? all_complete() : staged_.size() == install_.bucket_count;
  }
  void start_update();
  bool may_be_last(Version version) const;
  std::string decisions_of_update() const;
  void start_local_steps();
  void start_asked_audit();
  bool audit_holds() const;
  bool decision_holds() const;
  std::set<Incarnation> awaited_for_audit() const;
  bool pause_is_due() const;
  bool evaluation_is_due() const;
  bool own_part_is_done() const;
  bool own_part_is_done(std::uint32_t bucket) const;
  std::set<Incarnation> awaited() const;
  void reset_step();

  const protocol::Member& owner_of(std::uint32_t bucket) const;
  const protocol::Member* member(Incarnation incarnation) const;
  std::uint32_t place_of(const protocol::Member& member) const;
  bool at_last() const { return version_ == install_.last_version; }
  protocol::Stamp stamp() const { return {generation_, config_.self}; }
  void send_head(protocol::WorkerMessage message);
  void send_peer(const protocol::Member& to, protocol::PeerMessage message);
  void anomaly(std::string text);
  void abort(std::string reason);
  Effects take_effects();

  // Constant.
  WorkerConfig config_;

  // State that outlives a generation.
  Phase phase_ = Phase::kSealed;
  Generation generation_;
  std::optional<Version> version_;
  Operation operation_ = Operation::kNone;
  Instant mean_step_{};                        // of recent steps; 0 before the first
  std::optional<Generation> prepare_pending_;  // a Prepare that waits for operation_; the newest
  std::map<Version, protocol::LedgerLine> lines_;  // not acknowledged; all <= version_
  // Pairs of request and directory, without those that have failed. The head asks again after each
  // round, and no checkpoint is written twice.
  std::set<std::pair<std::uint64_t, std::string>> checkpoints_begun_;
  // Evaluations of this worker that the head may not have received; the head may be away.
  std::map<Version, protocol::Evaluated> evaluations_;
  std::string decisions_;  // of the evaluations before version_, or before the target
  // Of a job with sharded state: the buckets whose moments are here; whether they are already those
  // of the next version; the sums by which they become that; and what belongs to no bucket of the
  // newest step of which it is known: results of all ranks and sums of squares.
  std::set<std::uint32_t> held_;
  bool ahead_ = false;
  std::map<std::uint32_t, protocol::Reduced> held_sums_;
  struct Made {
    std::vector<protocol::RankResult> results;
    protocol::Bytes squares;
    bool drain = false;
  };
  Made made_;
  // The line of version_, which lacks the digest of the state: that needs the moments of all. The
  // member with rank 0 computes it.
  std::optional<protocol::LedgerLine> line_without_state_;
  std::string failure_;     // of the job; not empty exactly in phase Failed
  bool elsewhere_ = false;  // the failure may be one of this worker only

  // State of the promised generation; seal() resets it.
  bool installed_ = false;
  protocol::Install install_;
  RankRange ranks_;
  // All sums that are made for an owner of buckets, by its place in install_.members.
  std::map<std::uint32_t, std::vector<PartialSum>> routes_;
  bool drain_wanted_ = false;
  bool drain_agreed_ = false;  // the flag came back with bucket 0: all members stop at this version
  bool evaluating_ = false;
  bool stalled_ = false;  // the data of a peer is lost, so only a new round helps
  std::map<std::uint64_t, protocol::WriteCheckpoint> checkpoints_asked_;  // by request
  std::vector<protocol::PeerMessage> waiting_;       // early messages, in order of arrival
  std::vector<protocol::LedgerLine> loading_lines_;  // came with the State that is being loaded
  std::map<Incarnation, protocol::Fetch> fetches_;   // requests that are being served
  // Of a job with sharded state: requests that wait until the version is reached; pieces of the
  // target that have come, and the workers whose pieces are awaited.
  std::vector<protocol::FetchShards> fetches_waiting_;
  std::vector<protocol::Shards> pieces_;
  std::set<Incarnation> pieces_awaited_;
  bool makes_shards_ = false;  // waits for what it needs to make the shards of the target
  // Of a version of which this worker writes a checkpoint, or digests the state: the moments that
  // are elsewhere.
  struct Gathering {
    std::set<Incarnation> owners;
    std::vector<protocol::Shards> pieces;
    // What waits for them, until the engine has taken them: an owner may die before.
    std::vector<protocol::WriteCheckpoint> asked;
    int supplies = 0;                       // how often the engine was given all of them
    std::map<Incarnation, Instant> broken;  // when the link to an owner broke first
    bool complete() const { return pieces.size() == owners.size(); }
    // The owners that have not answered.
    std::set<Incarnation> awaited() const;
  };
  std::map<Version, Gathering> gathering_;
  struct Break {
    Instant at{};
    std::optional<Version> version;  // the version that this worker held then
  };
  std::map<Incarnation, Break> broken_links_;  // the newest break of each peer
  // Links that have never been there, since when, and those that were. They outlive a round.
  std::map<Incarnation, Instant> links_awaited_;
  std::set<Incarnation> links_made_;
  Instant last_progress_{};
  bool suspected_ = false;                      // a peer was suspected in this step
  std::optional<Version> audit_passed_;         // the newest step that has passed
  std::optional<protocol::Audit> audit_asked_;  // not begun, because its version is not reached
  // With the evaluation of each of these versions, none before version_.
  std::map<Version, std::string> decided_;

  // State of the step `version_`; a commit resets it.
  bool steps_started_ = false;
  Instant step_begin_{};
  // Duration of the own local steps; until now, if they are held up; 0 until one of both is true.
  Instant own_part_{};
  bool held_up_ = false;  // the own local steps wait until others have read parts
  // What is added here, by bucket and ranks.
  std::map<std::pair<std::uint32_t, RankRange>, BucketSum> sums_;
  std::map<std::uint32_t, std::uint32_t> own_ranks_summed_;  // by bucket
  std::map<std::uint32_t, protocol::Reduced> staged_;        // by bucket
  std::map<std::uint32_t, protocol::Complete> complete_;     // by bucket, instead of staged_
  std::map<std::uint32_t, protocol::Updated> updated_;       // by bucket

  // State of the running call.
  Instant now_{};
  Effects effects_;
};

}  // namespace es::actors::worker
