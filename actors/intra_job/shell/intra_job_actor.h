#pragma once
// IntraJobScheduler is the actor that runs one job in the head. It owns the job's placement and
// generation, from admission to the end of the last process. It is a thin shell around
// JobCore.
//
// Accepts   Inbound from the job's workers: round messages (round.capnp), WorkerStats, ReadState.
//           Inbound from node agents: NodeHello, WorkerExited, StatesFound, StatesRemoved,
//           StatePart.
//           Inbound from clients: requests about this job (client.capnp).
//           From the gateway: PeerDown.
//           From the cluster scheduler: Allocation, DemandRefused, Inventory, DescribeJob,
//           CancelJob, StoreRecovered.
//           From the companion: PlanAnswer, PlanList.
//           Every message is legal at any time. Stale ones are dropped by generation, incarnation
//           or sequence.
// Sends     Through the gateway: round messages to workers; StartWorker, KillWorker, FindStates and
//           RemoveStates to node agents; ReadState and StatePart, passed on between workers and
//           node agents; answers and job events to clients.
//           To the cluster scheduler: Demand, DeviceReleased, DeviceSuspected, DevicesKept,
//           JobEnded, and the state of the store (StoreFailed, HistoryUnreadable).
//           To the companion: PlanQuery, PlanListQuery, CapabilityReport.
// State     The state of the core, and views for users. Generation, known workers, state of the job
//           and refused devices are journaled before any message of a generation is sent. Ledger
//           lines go to the run ledger.
// Fails     The cluster scheduler monitors this actor. Workers train on without it. While the state
//           directory cannot be written, its effects wait in order, so nothing is sent that a
//           restarted head would not know. Workers train on, their reports are kept, and commands
//           are refused. The cluster scheduler says when to continue.
// Order     The effects of one event are performed in order, SaveRecord synchronously.
// Limits    kLogLinesMax log lines in memory; the log file contains all of them.
// Threads   Cooperative. A journal write blocks it for a fraction of a millisecond.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/gateway/shell/gateway_messages.h"
#include "actors/head/head_store.h"
#include "actors/head/store_atoms.h"
#include "actors/intra_job/core/held_effects.h"
#include "actors/intra_job/core/job_core.h"
#include "actors/intra_job/core/lost_steps.h"
#include "actors/intra_job/core/straggler_watch.h"
#include "actors/protocol/shell/caf_messages.h"
#include "actors/protocol/wire/job_view.h"
#include "scheduler/grants/grant_trial.h"
#include "scheduler/model/capability_watch.h"
#include "scheduler/model/model.h"

namespace es::actors {

inline constexpr std::size_t kLogLinesMax = 10'000;

struct IntraJobOptions {
  JobId job;
  JobSpec spec;           // with its total number of steps
  std::string spec_toml;  // canonical text of `spec`
  intra_job::Config config;
  JobRecord record;       // as admitted, or as the journal has it
  bool restored = false;  // the head was restarted: continue from the record
  // assumed pause of a change, until one was measured
  Instant pause_assumed = std::chrono::milliseconds(500);
  std::filesystem::path log_file;  // empty: lines are kept in memory only
};

struct IntraJobPeers {
  caf::actor cluster, companion, gateway;
  std::shared_ptr<HeadStore> store;
};

class IntraJobState {
 public:
  void init(caf::stateful_actor<IntraJobState>* self, IntraJobOptions options, IntraJobPeers peers);
  void on_inbound(const Inbound& inbound);
  void on_allocation(wire::Allocation::Reader r);
  void on_refused(wire::DemandRefused::Reader r);
  void on_inventory(wire::Inventory::Reader r);
  void on_plans(wire::PlanAnswer::Reader r);
  void on_plan_list(const Msg<wire::PlanList>& list);
  void on_peer_down(const PeerDown& down);
  Msg<wire::JobDetails> details() const;
  void cancel_unasked();
  void on_store_recovered();
  void tick();
  void leave();

 private:
  struct Follower {
    PeerId client;
    std::uint64_t request = 0;
    bool info = false;
  };

  // Workers and nodes.
  void on_worker_message(const Inbound& inbound);
  void tell_loss(const protocol::Install& install);
  void on_worker_exited(wire::WorkerExited::Reader r);
  void on_node_hello(wire::NodeHello::Reader r);
  void lose(const std::vector<Incarnation>& workers, const std::string& why);
  void arm_tick();
  intra_job::Services make_services();
  Result<intra_job::LedgerHistory> read_history();
  Result<std::vector<std::pair<Version, Digest>>> read_evaluations();
  std::string show_evaluation(Version version, const std::vector<std::byte>& totals);
  Status save_end();

  // Plans (intra_job_plans.cc).
  DeviceSet held_devices() const;
  DeviceSet addable_devices() const;
  Version steps_left() const;
  void query_plans();
  bool has_adopted() const;
  double speed_now() const;
  void put_progress(wire::JobProgress::Builder b) const;
  void on_step();
  void consider_fall_back();
  void release_unused();
  void give_back(DeviceSet rest);
  void keep_refusals();
  Status save_refusals();
  void tell_refusals();

  // Speeds (intra_job_speed.cc).
  void on_worker_stats(wire::WorkerStats::Reader r, Incarnation incarnation);
  void measured(const DeviceType& type, double steps_per_second);
  double capability_of(const DeviceId& device) const;
  std::vector<RankRange> assign_ranks(std::uint32_t max_p,
                                      const std::vector<DeviceId>& devices) const;
  std::vector<DeviceId> member_devices() const;
  void consider_rebalance();
  void measure_pause(JobState state);
  Instant pause_of_a_change() const;

  // Saved states on the nodes' disks (intra_job_states.cc).
  void on_states_found(const Inbound& inbound);
  void on_states_removed(const Inbound& inbound);
  void on_read_state(const Inbound& inbound);
  void on_state_part(const Inbound& inbound);

  // A state directory that cannot be written (intra_job_stall.cc).
  void perform(intra_job::Effects effects);
  Status perform_now(const intra_job::Effect& effect);
  void hold(intra_job::Effect effect);
  void stall(const Error& reason);
  void write_held();
  void tell_waiting_clients(const Error& reason);
  Status check_accepting();
  std::string store_warning() const;

  // Effects (intra_job_effects.cc). An error means that the effect was not performed and has to be
  // tried again.
  Status perform_effect(const intra_job::SaveRecord& effect);
  Status perform_effect(const intra_job::StartWorker& effect);
  void perform_effect(const intra_job::KillWorker& effect);
  Status perform_effect(const intra_job::SendWorker& effect);
  void perform_effect(const intra_job::Demand& effect);
  void perform_effect(const intra_job::BoundToType& effect);
  void perform_effect(const intra_job::DemandLifted& effect);
  void perform_effect(const intra_job::DeviceReleased& effect);
  void perform_effect(const intra_job::DeviceSuspected& effect);
  Status perform_effect(const intra_job::LedgerRewound& effect);
  void perform_effect(const intra_job::FindStates& effect);
  void perform_effect(const intra_job::RemoveCheckpoints& effect);
  void perform_effect(const intra_job::KeepSuspensions& effect);
  void perform_effect(const intra_job::DevicesKept& effect);
  Status perform_effect(const intra_job::LedgerLineAdded& effect);
  Status perform_effect(const intra_job::EvaluationAdded& effect);
  void perform_effect(const intra_job::StateChanged& effect);
  void perform_effect(const intra_job::CommandDone& effect);
  void perform_effect(const intra_job::CheckpointDone& effect);
  void perform_effect(const intra_job::LogLine& effect);
  Status perform_effect(const intra_job::JobEnded& effect);

  // Clients (intra_job_clients.cc).
  void on_client(const Inbound& inbound);
  void describe(const Inbound& inbound);
  void follow(const Inbound& inbound);
  void scale(const Inbound& inbound);
  void checkpoint(const Inbound& inbound);
  void pause(const Inbound& inbound);
  void resume(const Inbound& inbound);
  void cancel(const Inbound& inbound);
  void list_plans(const Inbound& inbound);
  std::uint64_t remember(const Inbound& inbound);
  void fill_details(wire::JobDetails::Builder b) const;
  void answer_log(const Follower& follower, const std::string& line);
  void answer_info(const Follower& follower);
  void end_follower(const Follower& follower);
  void tell_followers_progress();
  template <class Schema, class Fill>
  void answer(const PeerId& client, std::uint64_t request, Fill&& fill);
  void refuse(const PeerId& client, std::uint64_t request, const Error& error);

  JobView view() const;
  WorkerView worker_view(const protocol::Member& member, const DeviceId& device) const;
  void log(const std::string& line);
  void write_log_file();
  void send_to(const PeerId& peer, std::shared_ptr<const Frame> frame);
  Instant now() const;

  caf::stateful_actor<IntraJobState>* self_ = nullptr;
  IntraJobOptions options_;
  IntraJobPeers peers_;
  std::optional<intra_job::JobCore> core_;

  // Input of the scheduler: the devices of the cluster and their measured speeds.
  DeviceSet inventory_;
  bool inventory_known_ = false;
  scheduler::Capabilities capabilities_;
  std::set<DeviceType> measured_types_;  // types with a measured speed; the others are assumed
  scheduler::CapabilityWatch capability_watch_;
  scheduler::GrantTrial grant_trial_;
  // Device sets of which the job once gave a part back as unused. If it is given such a set again,
  // it keeps it until a speed changes.
  std::set<std::string> released_from_;
  Generation paced_generation_;  // the placement whose steps are timed
  Version paced_through_ = 0;    // the newest timed version
  double queried_seconds_ = 0;   // seconds that were left at the last plan query; 0: not known
  intra_job::StragglerWatch stragglers_;
  std::optional<Instant> rescaling_since_, last_pause_;
  Instant next_rebalance_{};  // earliest time of the next rebalance
  bool demand_is_exact_ = false;
  std::uint64_t allocation_sequence_ = 0;  // of the newest Allocation, 0 before the first
  std::uint32_t plan_queries_ = 0;         // queries that the companion has not answered yet

  bool has_run_ = false;
  std::optional<Instant> tick_armed_;  // time of the next timer
  int timers_ = 0;                     // timers that have not fired yet
  bool leaves_ = false;                // quit after the last timer

  // Set while the state directory cannot be written: the error, and the effects that wait.
  std::optional<Error> stalled_;
  intra_job::HeldEffects held_;
  bool refusals_wait_ = false;  // refusals must be saved before the held effects
  bool writes_held_ = false;    // write_held() is running
  // The core's time stands still while an effect waits whose answer has a time limit: the limit
  // must not run before the effect is performed. `stood_still_` is the total of these times.
  std::optional<Instant> stands_still_at_;
  Instant stood_still_{};

  // After a restart of the head: workers of the journal that have not sent anything to this head
  // yet.
  std::set<Incarnation> awaited_;
  Instant awaited_until_{};

  // Views for users.
  std::map<Incarnation, std::uint64_t> pids_;
  std::map<Incarnation, std::vector<double>> est_seconds_;  // newest local step of each rank
  double peak_rss_mib_ = 0;
  double compute_seconds_ = 0, switch_seconds_ = 0, wait_seconds_ = 0;  // sums over all workers
  std::optional<intra_job::LostSteps> lost_steps_;
  Generation told_generation_;  // generation for which tell_loss() has logged
  std::map<Version, EvaluationView> evaluations_;
  std::deque<std::string> log_lines_;
  std::ofstream log_file_;
  std::size_t log_file_lacks_ = 0;  // newest lines that the file lacks, because its disk is full
  std::vector<Follower> followers_;
  std::map<std::uint64_t, std::pair<PeerId, std::uint64_t>> commands_;  // number -> client, request
  std::map<std::uint64_t, std::pair<PeerId, std::uint64_t>> plan_lists_;  // like commands_
  std::uint64_t next_command_ = 1;
  bool progress_due_ = false;
};

caf::behavior intra_job_actor(caf::stateful_actor<IntraJobState>* self, IntraJobOptions options,
                              IntraJobPeers peers);

}  // namespace es::actors
