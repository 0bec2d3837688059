#pragma once
// Rounds carries out the round of a job: Prepare, Report, Install, Ready, Go (docs/PROTOCOL.md). It
// owns the placement, and decides when a planned change drains the members and begins a round.
//
// Phases      Idle        No worker takes part in rounds. The job waits for devices and processes.
//             Preparing   A new generation is journaled; the head waits for the report of every
//                         known worker.
//             Installing  Target and placement are sent; the head waits until all members are
//                         ready.
//             Normal      Members run steps, or have paused at the end of a stage.
//             Draining    Members were asked to pause, so that a planned change wastes no work.
//             Ending      The outcome is journaled; the head waits until every process has exited
//                         (lifecycle.h).
// Stages      The members pause by themselves where a stage ends. The workers of the next stage are
//             warm by then. If one of them is missing, the members wait for it.
// Invariants  - A generation is journaled before any of its messages is sent, and is used once.
//             - Go is sent only after all members hold the target. Workers without ranks stay
//               available as sources until then.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/intra_job/core/audits.h"
#include "actors/head/intra_job/core/checkpoints.h"
#include "actors/head/intra_job/core/device_demand.h"
#include "actors/head/intra_job/core/fleet_control.h"
#include "actors/head/intra_job/core/job_context.h"
#include "actors/head/intra_job/core/kernel_agreement.h"
#include "actors/head/intra_job/core/restart_point.h"
#include "actors/head/intra_job/core/run_progress.h"
#include "actors/head/intra_job/core/shards.h"

namespace es::actors::intra_job {

// The parts of a job's head that a round changes. All of them outlive it.
struct RoundParts {
  JobContext& context;
  RunProgress& progress;
  RestartPoint& restart;
  DeviceDemand& demand;
  FleetControl& fleet;
  Checkpoints& checkpoints;
  Audits& audits;
};

class Rounds {
 public:
  explicit Rounds(RoundParts parts) : parts_(parts), context_(parts.context) {}

  // Begins a new round, in any phase but Ending. Without a known worker the job waits for workers.
  // `cause`: why the members do not train meanwhile.
  void begin(PauseCause cause = PauseCause::kChange);
  // Asks the members to pause.
  void drain();
  // Asks the members to pause because the job is about to give them up. They stand until go_on(),
  // also after a round. What takes long and can be repeated does not hold them up (stop_limit).
  void stop();
  // From the next round on members pause before any step, until go_on().
  void hold() { holds_ = true; }
  // The job keeps its members after all.
  void go_on();
  // Returns whether the job ends at this version without another step of its members: it is the
  // last one, and no evaluation of it runs that could take long.
  bool ends_at(Version version) const;
  // Starts a planned change if there is one and its workers are ready. REQUIRES: nothing else stops
  // the members now (a pause, a suspension, a cancellation).
  void consider_change();
  // Members stand because a checkpoint comes next, not another placement.
  void stay_drained() { context_.phase = Phase::kNormal; }
  // The job is about to give up all its devices.
  void note_suspension() { parts_.progress.pause(PauseCause::kSuspended); }
  // Ends all workers that take part in rounds. The record is saved first: from then on a restarted
  // head expects nothing of these processes.
  void release_everybody();

  // --- messages of workers that count in the present generation
  // A worker has connected again after its link broke; messages in both directions may be lost.
  void came_back(const Worker& worker);
  void take(Worker& worker, const protocol::Report& message);
  // Starts the members when all are ready. Returns a member that has to leave before, because it
  // computes with other kernels than the others; otherwise nullptr.
  Worker* take(Worker& worker, const protocol::Ready& message);
  // Returns whether the members have all stopped because they were asked to.
  bool take(Worker& worker, const protocol::Drained& message);
  void take(const Worker& worker, const protocol::CheckpointUnreadable& message);
  // `worker` cannot reach the awaited one. Returns the worker that has to be evicted; nullptr: a
  // new round tries new connections, or the message is not relevant.
  Worker* take(Worker& worker, const protocol::Suspect& message);

  // --- other events
  // A version was added to the ledger.
  void made_progress();
  // Error (refused): this worker cannot compute with the members.
  Status check_kernels(const Worker& worker) const {
    return kernels_.check(worker.device.type, worker.kernels);
  }
  // Nodes have said what they can read, or left: the round may continue.
  void continue_if_known();
  // A member that reads from one of these nodes will not receive the rest of the state.
  void load_again_without(const std::set<std::string>& nodes);
  // Drains for a round with the same members and with ranks that fit their measured speeds.
  void rebalance();
  // Begins the round whose drain has lasted too long.
  void end_late_drain();
  // Workers that must report and have not done so within the time limit, or have not started.
  std::vector<Incarnation> silent_workers() const;

  // --- state
  // The version with which the members of the present placement have begun.
  Version target() const { return target_; }
  bool all_stopped() const { return drained_.size() == context_.members.size(); }
  bool all_reported() const;
  // Returns whether the members are about to obtain what they are to hold from a saved state or the
  // seed, so no worker holds more.
  bool loads_saved() const;
  // Returns whether the members will pause at this version by themselves, or have done so.
  bool pauses_at(Version version) const { return pause_at_ && version >= *pause_at_; }
  // Returns whether this worker has to load the saved state at this path from another node.
  bool may_read(Incarnation worker, const std::string& path) const;
  // The end of the earliest time limit of a round; nullopt: none runs.
  std::optional<Instant> next_limit() const;
  void check_invariants() const;

 private:
  using Pair = std::pair<std::string, std::string>;
  // The newest version that a sealed worker reported, and that worker.
  using Holder = std::pair<protocol::FromPeer, Version>;

  void forget_round();
  void admit_warm_workers();
  void wait_for_workers();
  void stand_down();
  void install();
  void install(protocol::Source source, Version target);
  void enter_stage(bool complete);
  void place(const std::set<Incarnation>& chosen);
  void send_install(protocol::Source source);
  std::string decisions_text() const;
  std::optional<Holder> newest_reported() const;
  bool sharded() const { return !context_.config.shards.empty(); }
  void give_up_lost_shards();
  bool is_last_holder(const Worker& worker) const;
  protocol::FromPeer peer(Incarnation incarnation) const;
  std::vector<protocol::Holders> holders() const;
  std::string source_node(const Worker& worker) const;
  Worker* agree_on_kernels();
  void go();
  std::vector<Incarnation> dismiss_unplaced();
  bool must_leave() const;
  Instant stop_limit() const;
  Instant report_limit() const;
  Worker& choose_eviction(Worker& a, Worker& b);
  std::ptrdiff_t members_on(const std::string& node) const;

  RoundParts parts_;
  JobContext& context_;
  Version target_ = 0;
  std::optional<RestartChoice> loads_;  // the saved state that members load in this round
  bool loads_saved_ = false;            // no worker held a version in this round
  bool may_load_ = false;               // a worker may still load for the round before this one
  std::optional<Version> pause_at_;     // the version at which the members pause by themselves
  bool waits_for_stage_ = false;  // this placement only waits: workers of the stage are missing
  bool holds_ = false;            // members stand, or are to stop: stop() or hold() was called
  std::map<Incarnation, protocol::Report> reports_;
  std::set<Incarnation> ready_;
  std::set<Incarnation> drained_;
  Instant round_since_{};
  Instant drain_since_{};
  KernelAgreement kernels_;  // of the members of this and earlier rounds
  // Ends of links: nodes, or workers of one node.
  std::set<Pair> suspected_;
  std::map<std::string, int> named_;  // how often each end was named in a Suspect
};

}  // namespace es::actors::intra_job
