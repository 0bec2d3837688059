#pragma once
// IntraJobScheduler is the actor that runs one job in the head. It owns the job's placement and
// generation, from admission to the end of the last process. It is a thin shell around JobCore,
// which runs the job on the devices that it has, and JobPlanner, which decides what it asks for and
// gives back.
//
// Accepts   Inbound from the job's workers: round messages (round.capnp), WorkerStats, ReadState,
//           TraceAnswer, TracePart.
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
//           node agents; TraceWorker to workers; answers and job events to clients, and the
//           parts of a trace, which it passes on.
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
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/base/log/line.h"
#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/base/protocol/wire/job_cluster_codec.h"
#include "actors/base/protocol/wire/job_view.h"
#include "actors/head/head_store.h"
#include "actors/head/intra_job/core/held_effects.h"
#include "actors/head/intra_job/core/job_core.h"
#include "actors/head/intra_job/core/job_planner.h"
#include "actors/head/intra_job/core/job_trace.h"
#include "actors/head/intra_job/core/lost_steps.h"
#include "actors/head/intra_job/shell/present_nodes.h"
#include "actors/head/store_atoms.h"

namespace es::actors {

inline constexpr std::size_t kLogLinesMax = 10'000;

struct IntraJobOptions {
  JobId job;
  intra_job::Config config;  // with the specification of the job
  JobRecord record;          // as admitted, or as the journal has it; with the text of the job file
  bool restored = false;     // the head was restarted: continue from the record
  // assumed pause of a change, until one was measured
  Instant pause_assumed = std::chrono::milliseconds(500);
  Instant suspend_assumed = std::chrono::seconds(3);
  std::filesystem::path log_file;          // empty: lines are kept in memory only
  std::function<std::uint64_t()> unix_ms;  // the date, for people
};

struct IntraJobPeers {
  caf::actor cluster, companion, gateway;
  std::shared_ptr<HeadStore> store;
  std::shared_ptr<PresentNodes> present_nodes;
};

class IntraJobState {
 public:
  void init(caf::stateful_actor<IntraJobState>* self, IntraJobOptions options, IntraJobPeers peers);
  void on_inbound(const Inbound& inbound);
  void on_allocation(wire::Allocation::Reader r);
  void on_refused(wire::DemandRefused::Reader r);
  void on_inventory(const Msg<wire::Inventory>& inventory);
  void on_plans(wire::PlanAnswer::Reader r);
  void on_plan_list(const Msg<wire::PlanList>& list);
  void on_peer_down(const PeerDown& down);
  JobState shown_state() const;
  Msg<wire::JobDetails> details(JobState state) const;
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

  // What the planner decides (intra_job_plans.cc).
  intra_job::PlannerView planner_view() const;
  void act(const intra_job::PlannerEffects& effects);
  void act_on(const intra_job::LogLine& effect);
  void act_on(const protocol::PlanQuery& effect);
  void act_on(const protocol::CapabilityReport& effect);
  void act_on(const protocol::Demand& effect);
  void act_on(const intra_job::RefusalsChanged& effect);
  void act_on(const intra_job::ConsiderChanges& effect);
  void act_on(const intra_job::GiveBackCommand& effect);
  void act_on(const intra_job::RebalanceCommand& effect);
  Status save_refusals();
  void tell_refusals();
  void on_worker_stats(wire::WorkerStats::Reader r, Incarnation incarnation);
  void on_step() { act(planner_->step_added(planner_view())); }

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
  void perform_effect(const intra_job::BoundToType& effect) { tell_cluster(effect); }
  void perform_effect(const intra_job::DemandLifted& effect);
  void perform_effect(const intra_job::DeviceReleased& effect) { tell_cluster(effect); }
  void perform_effect(const intra_job::DeviceFailed& effect) { tell_cluster(effect); }
  void perform_effect(const intra_job::DevicesWork& effect) { tell_cluster(effect); }
  void perform_effect(const intra_job::DeviceSuspected& effect) { tell_cluster(effect); }
  Status perform_effect(const intra_job::LedgerRewound& effect);
  void perform_effect(const intra_job::FindStates& effect);
  void perform_effect(const intra_job::RemoveCheckpoints& effect);
  void perform_effect(const intra_job::KeepSuspensions& effect);
  void perform_effect(const intra_job::DevicesKept& effect) { tell_cluster(effect); }
  Status perform_effect(const intra_job::LedgerLineAdded& effect);
  Status perform_effect(const intra_job::EvaluationAdded& effect);
  void perform_effect(const intra_job::StateChanged& effect);
  void perform_effect(const intra_job::CommandDone& effect);
  void perform_effect(const intra_job::CheckpointDone& effect);
  void perform_effect(const intra_job::LogLine& effect);
  Status perform_effect(const intra_job::JobEnded& effect);

  // Traces (intra_job_trace.cc).
  void begin_trace(const Inbound& inbound);
  Status check_trace(std::uint32_t steps, bool wait) const;
  void trace_members();
  void on_trace_answer(const Inbound& inbound);
  void on_trace_part(const Inbound& inbound);
  void trace_effect(const intra_job::SendWorker& effect);
  void trace_state(JobState state);
  void trace_job_ended(JobState state);  // and so have all of its workers
  void trace_gone(Incarnation worker, const std::string& why);
  void trace_client_gone(const PeerId& client);
  void trace_ledger(Version version);
  void tick_trace();
  void perform(const intra_job::TraceSends& sends);
  void stop_trace_of(const Inbound& inbound, std::uint64_t trace);
  // The real time, which also passes while the core's time stands still.
  Instant clock_now() const;

  // Clients (intra_job_clients.cc).
  void on_client(const Inbound& inbound);
  void describe(const Inbound& inbound);
  void follow(const Inbound& inbound);
  void scale(const Inbound& inbound);
  void checkpoint(const Inbound& inbound);
  void pause(const Inbound& inbound);
  void resume(const Inbound& inbound);
  void budget(const Inbound& inbound);
  void cancel(const Inbound& inbound);
  void list_plans(const Inbound& inbound);
  std::uint64_t remember(const Inbound& inbound);
  void fill_details(wire::JobDetails::Builder b, JobState state) const;
  void answer_log(const Follower& follower, const std::string& line);
  void answer_info(const Follower& follower, JobState state);
  void end_follower(const Follower& follower);
  void tell_followers_progress();
  template <class Schema, class Fill>
  void answer(const PeerId& client, std::uint64_t request, Fill&& fill);
  void refuse(const PeerId& client, std::uint64_t request, const Error& error);

  JobView view(JobState state) const;
  WorkerView worker_view(const protocol::Member& member, const DeviceId& device) const;
  // Sends a value of protocol/core/job_cluster.h.
  template <class Value>
  void tell_cluster(const Value& value) {
    self_->send(peers_.cluster, protocol::message_of(options_.job, value));
  }
  void open_log_file();
  void log(const std::string& text, log::Level level = log::Level::kInfo);
  void write_log_file();
  void send_to(const PeerId& peer, std::shared_ptr<const Frame> frame);
  Instant now() const;
  std::uint64_t date_of_zero() const;  // of now()

  caf::stateful_actor<IntraJobState>* self_ = nullptr;
  IntraJobOptions options_;
  IntraJobPeers peers_;
  std::optional<intra_job::JobCore> core_;

  std::optional<intra_job::JobPlanner> planner_;

  std::optional<Instant> tick_armed_;  // time of the next timer
  int timers_ = 0;                     // timers that have not fired yet
  bool leaves_ = false;                // quit after the last timer

  // Set while the state directory cannot be written: the error, and the effects that wait.
  std::optional<Error> stalled_;
  intra_job::HeldEffects held_;
  bool refusals_wait_ = false;  // refusals must be saved before the held effects
  bool writes_held_ = false;    // write_held() is running
  // The last message to a worker and its frame, while effects are performed: it often has several
  // receivers.
  struct Encoded {
    std::shared_ptr<const protocol::HeadMessage> message;
    std::shared_ptr<const Frame> frame;
  };
  Encoded encoded_;
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
  std::uint64_t ended_unix_ms_ = 0;  // when the core ended the job; 0: it has not
  double compute_seconds_ = 0, switch_seconds_ = 0, wait_seconds_ = 0;  // sums over all workers
  std::uint64_t message_bytes_ = 0, shared_memory_bytes_ = 0, channel_bytes_ = 0;
  std::uint64_t repeated_steps_ = 0;
  std::optional<intra_job::LostSteps> lost_steps_;
  Generation told_generation_;  // generation for which tell_loss() has logged
  std::map<Version, EvaluationView> evaluations_;
  std::deque<std::string> log_lines_;  // in the form of log::format_job_line
  std::ofstream log_file_;
  std::size_t log_file_lacks_ = 0;  // newest lines that the file lacks, because its disk is full
  std::vector<Follower> followers_;
  std::map<std::uint64_t, std::pair<PeerId, std::uint64_t>> commands_;  // number -> client, request
  std::map<std::uint64_t, std::pair<PeerId, std::uint64_t>> plan_lists_;  // like commands_
  std::uint64_t next_command_ = 1;
  // The running trace, and who has asked for it.
  std::optional<intra_job::JobTrace> trace_;
  std::pair<PeerId, std::uint64_t> trace_client_;
  Instant message_begin_{};  // when the message that is handled now arrived, while a trace runs
  bool progress_due_ = false;
};

caf::behavior intra_job_actor(caf::stateful_actor<IntraJobState>* self, IntraJobOptions options,
                              IntraJobPeers peers);

}  // namespace es::actors
