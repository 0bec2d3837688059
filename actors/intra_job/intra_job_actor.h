#pragma once
// IntraJobScheduler: one per job, in the head; owns the job's placement and generation, from
// admission to its last process. A thin shell around IntraJobCore.
//
// Accepts   Inbound: messages of the job's workers (round.capnp), WorkerExited, StatesFound,
//           StatesRemoved, StatePart of node agents, and client requests about this job
//           (client.capnp). Allocation, DemandRefused, Inventory
//           from the cluster scheduler; PlanAnswer, PlanList from the companion. Legal at any time;
//           stale ones are dropped by generation, incarnation or sequence.
// Sends     Through the gateway: round messages to workers, StartWorker, KillWorker, FindStates and
//           RemoveStates to node agents, between those two ReadState and StatePart, answers and job
//           events to clients. Demand, DeviceReleased, JobEnded to the cluster scheduler;
//           PlanQuery, PlanListQuery, CapabilityReport to the companion.
// State     the core's, and views for people. Journaled before anything of a generation is sent:
//           generation, known workers, state, refused devices. Ledger lines: run ledger.
// Fails     Monitored by the cluster scheduler. Workers keep stepping without it.
//           While the state directory cannot be written its effects wait, in order: nothing is sent
//           that a restarted head would not know. Workers train on, and what they tell is kept.
//           Commands are refused then. The cluster scheduler says when to go on.
// Order     Effects of one event are performed in order, SaveRecord synchronously.
// Limits    Log lines in memory: kLogLinesMax; the file has all of them.
// Threads   Cooperative. Journal writes block it for a fraction of a millisecond.
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

#include "actors/common/caf_messages.h"
#include "actors/common/job_view.h"
#include "actors/gateway/gateway_messages.h"
#include "actors/head/head_store.h"
#include "actors/head/store_atoms.h"
#include "actors/intra_job/held_effects.h"
#include "actors/intra_job/intra_job_core.h"
#include "actors/intra_job/lost_steps.h"
#include "actors/intra_job/straggler_watch.h"
#include "scheduler/capability_watch.h"
#include "scheduler/grant_trial.h"
#include "scheduler/model.h"

namespace es::actors {

inline constexpr std::size_t kLogLinesMax = 10'000;

struct IntraJobOptions {
  JobId job;
  JobSpec spec;           // with its total number of steps
  std::string spec_toml;  // canonical text of `spec`
  intra_job::Config config;
  store::JobRecord record;  // as admitted, or as the journal has it
  bool restored = false;    // the head was restarted: go on from the record
  Instant pause_assumed = std::chrono::milliseconds(500);  // of a change, before one was measured
  std::filesystem::path log_file;                          // empty: lines are kept in memory only
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
  void measure_pause(intra_job::JobState state);
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

  // Effects (intra_job_effects.cc). Status: not performed, and to be tried again.
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
  std::optional<intra_job::IntraJobCore> core_;

  // For the scheduler: what devices there are and how fast they were measured to be.
  DeviceSet inventory_;
  bool inventory_known_ = false;
  scheduler::Capabilities capabilities_;
  std::set<DeviceType> measured_types_;  // of these; the others are assumed
  scheduler::CapabilityWatch capability_watch_;
  scheduler::GrantTrial grant_trial_;
  // Of these it has given some back once: given them anew, it keeps them until a speed changes.
  std::set<std::string> released_from_;
  Generation paced_generation_;  // of the placement whose steps are timed
  Version paced_through_ = 0;    // the newest of them
  double queried_seconds_ = 0;   // that were left when plans were asked for last; 0: not known
  intra_job::StragglerWatch stragglers_;
  std::optional<Instant> rescaling_since_, last_pause_;
  Instant next_rebalance_{};  // not before
  bool demand_is_exact_ = false;
  std::uint64_t allocation_sequence_ = 0;  // of the newest Allocation, 0 before the first
  std::uint32_t plan_queries_ = 0;         // that the companion has not answered yet

  bool has_run_ = false;
  std::optional<Instant> tick_armed_;  // the timer that comes next
  int timers_ = 0;                     // that will come
  bool leaves_ = false;                // after the last of them

  // Since something could not be written: why, and what waits for it.
  std::optional<Error> stalled_;
  intra_job::HeldEffects held_;
  bool refusals_wait_ = false;  // to be saved, before held_
  bool writes_held_ = false;    // write_held runs
  // The core's time stands still while something waits that has a time limit of its own.
  std::optional<Instant> stands_still_at_;
  Instant stood_still_{};

  // After a restart of the head: workers of the journal that have not spoken to this one yet.
  std::set<Incarnation> awaited_;
  Instant awaited_until_{};

  // For people.
  std::map<Incarnation, std::uint64_t> pids_;
  std::map<Incarnation, std::vector<double>> est_seconds_;  // newest local step of each rank
  double peak_rss_mib_ = 0;
  double compute_seconds_ = 0, switch_seconds_ = 0, wait_seconds_ = 0;  // of all workers
  std::optional<intra_job::LostSteps> lost_steps_;
  Generation told_generation_;  // of which tell_loss has told
  std::map<Version, EvaluationView> evaluations_;
  std::deque<std::string> log_lines_;
  std::ofstream log_file_;
  std::size_t log_file_lacks_ = 0;  // so many of the newest lines, since its disk is full
  std::vector<Follower> followers_;
  std::map<std::uint64_t, std::pair<PeerId, std::uint64_t>> commands_;  // number -> client, request
  std::map<std::uint64_t, std::pair<PeerId, std::uint64_t>> plan_lists_;  // as commands_
  std::uint64_t next_command_ = 1;
  bool progress_due_ = false;
};

caf::behavior intra_job_actor(caf::stateful_actor<IntraJobState>* self, IntraJobOptions options,
                              IntraJobPeers peers);

}  // namespace es::actors
