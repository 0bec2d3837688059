#pragma once
// ClusterScheduler: one per cluster, in the head; owns the devices and the list of jobs. A thin
// shell around ClusterCore, and the sink of the head's gateway: it hands every frame to whom it
// concerns.
//
// Accepts   Inbound: NodeHello of node agents; requests of clients (client.capnp); everything about
//           a job goes on to that job's intra-job scheduler. PeerUp, PeerDown of the gateway.
//           Demand, DeviceReleased, DeviceSuspected, DevicesKept, JobEnded of intra-job schedulers.
//           DirectoryTried of node agents. StopHead,
//           CloseHead of the daemon.
// Sends     NodeWelcome, answers to clients through the gateway. Allocation, DemandRefused,
// Inventory
//           to intra-job schedulers.
// State     ClusterCore; jobs by id. Saved: each job's record, before JobAccepted is sent; claims,
//           before Done is; suspect devices. Rebuilt
//           after a restart: jobs from the journal, devices from NodeHello, their owners from both.
//           A node that runs workers which no job knows joins when these are killed and reaped.
//           So does one that was lost: its jobs have given up all that was running there.
// Fails     A request that cannot be served is refused with its reason; nothing changes then.
//           While the state directory cannot be written (StoreFailedAtom of a job, or its own
//           write) it accepts nothing, tries again every second, and tells the jobs when it can
//           (StoreRecoveredAtom). What must be written all the same waits for that.
//           When this actor dies the daemon ends; a restarted one reloads the journal.
// Order     Per peer as the gateway promises; a job's events are handled in order of arrival.
// Limits    ListJobs: one answer is made at a time, for all who wait for it.
//           Else none of its own. An event costs what it changes; a decision costs what the policy
//           does, and events of one moment make one decision.
// Threads   Cooperative. Admission reads the dataset once and blocks meanwhile; links stay alive,
//           since the transport has a thread of its own.
#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/cluster_scheduler/admission.h"
#include "actors/cluster_scheduler/cluster_core.h"
#include "actors/common/caf_messages.h"
#include "actors/common/saved_state_files.h"
#include "actors/gateway/gateway_messages.h"
#include "actors/head/head_store.h"
#include "actors/head/store_atoms.h"
#include "proto/messages.h"
#include "store/path_roots.h"

namespace es::actors {

// What clients may do, as far as it depends on how they reach the head.
struct ClientRights {
  store::PathRoots roots;     // where the paths lie that they name; default: anywhere
  bool may_shut_down = true;  // Shutdown
};

struct ClusterSchedulerOptions {
  std::filesystem::path log_dir;         // empty: jobs keep their log in memory only
  std::filesystem::path checkpoint_dir;  // where checkpoints go when a client names no directory
  // Random: by it nodes find out whether they see the same checkpoint_dir. Empty: they do not try.
  std::string probe;
  std::function<std::uint64_t()> unix_ms;  // the date, for people
  // All jobs are over after StopHead or a client's Shutdown: the daemon may end.
  std::function<void()> on_stopped;
  // The state directory cannot be read, and so the head cannot start. Not called twice.
  std::function<void(const Error&)> on_unreadable;
  // A fresh policy; the default one when empty.
  std::function<std::unique_ptr<scheduler::Policy>()> make_policy;
  cluster::Limits limits;
  ClientRights clients;
  // Events that come within this time make one decision. 0: those of one moment.
  std::chrono::nanoseconds gather{0};
  double start_s = 1;      // what a job's first start costs, for the policy
  double rescale_s = 0.5;  // and a later change, before the job has measured one
  // A job that is over can be asked about. False: nothing of it stays.
  bool keep_past_jobs = true;
  // Fills in what a job needs from its text; tests put their own.
  std::function<Result<AdmittedJob>(const std::string& spec_toml, const std::string& checkpoint)>
      admit = es::actors::admit;
};

// daemon -> cluster scheduler: cancel all jobs, then call on_stopped.
struct StopHead {};

// To itself: the moment has come to ask the policy.
using DecideAtom = caf::atom_constant<caf::atom("decide")>;

// daemon -> cluster scheduler: accept no new job; this head ends when its node has drained, and its
// jobs go on with the next one.
struct CloseHead {};

class ClusterSchedulerState {
 public:
  void init(caf::stateful_actor<ClusterSchedulerState>* self, ClusterSchedulerOptions options,
            caf::actor gateway, std::shared_ptr<HeadStore> store);
  void on_inbound(const Inbound& inbound);
  void on_peer_down(const PeerDown& down);
  void on_demand(const JobId& job, wire::Demand::Reader r);
  void on_released(const JobId& job, wire::DeviceReleased::Reader r);
  void on_suspected(wire::DeviceSuspected::Reader r);
  void on_kept(const JobId& job, wire::DevicesKept::Reader r);
  void on_ended(const JobId& job);
  void on_return_timeout();
  void on_decide(double due_s);
  void on_store_failed(const std::string& reason);
  void on_try_store();
  void on_history_unreadable(const std::string& reason);
  void stop();
  void close();

 private:
  struct Job {
    caf::actor actor;
    bool over = false;
    caf::actor companion{};    // none when it was over before this head started
    std::uint64_t number = 0;  // in submit_order_
  };
  using ClientRequest = std::pair<PeerId, std::uint64_t>;

  // An answer to ListJobs in the making: what the jobs say of themselves, in submit order.
  struct Listing {
    std::vector<Inbound> clients;
    std::vector<Msg<wire::JobDetails>> jobs;
    std::size_t missing = 0;
    bool failed = false;
  };

  // What a node says of itself.
  struct Arrival {
    std::string name;
    DeviceSet devices;
    std::vector<Incarnation> workers;  // that run there
    std::set<Incarnation> strays;      // of these: killed, and not reaped yet
  };

  // Nodes (cluster_scheduler_nodes.cc).
  void on_node_hello(const Inbound& inbound);
  std::set<Incarnation> strays_of(const PeerId& node, const std::vector<Incarnation>& workers);
  void on_drain_node(const Inbound& inbound);
  void on_worker_exited(const Inbound& inbound);
  void admit(const Arrival& node);
  void stop_waiting();
  void take_in(const Arrival& node);
  void write_probe_file();
  void on_directory_tried(const Inbound& inbound);
  void fill_claims(wire::NodeList::Builder b) const;
  void fill_nodes(wire::NodeList::Builder b) const;
  void list_nodes(const Inbound& inbound);
  Msg<wire::Inventory> inventory() const;
  void send_inventory();

  void submit(const Inbound& inbound);
  void list_jobs(const Inbound& inbound);
  void gather_jobs();
  void answer_list(const Listing& listing);
  void end_listing();
  void shut_down(const Inbound& inbound);
  void forward_to_job(const Inbound& inbound);

  // Suspect devices and ledgers (cluster_scheduler_audit.cc).
  Status restore_suspects();
  void clear_device(const Inbound& inbound);
  void read_ledger(const Inbound& inbound);

  // A state directory that cannot be written (cluster_scheduler_store.cc).
  Status check_accepting();
  Status not_written(const Status& failed);
  void keep(std::function<Status()> write);
  std::string store_warning() const;

  // Claims (cluster_scheduler_claims.cc).
  Status restore_claims();
  void claim_devices(const Inbound& inbound);
  void resize_claim(const Inbound& inbound, const cluster::ClaimResized& claim);
  void save_claim(const Inbound& inbound, const cluster::ClaimMade& claim,
                  const cluster::Event& event);
  void release_claim(const Inbound& inbound);

  Status fill_in_checkpoint_directory(Inbound& inbound, const JobId& job);
  JobId find_job(const JobId& named) const;

  Status check_fits(const JobSpec& spec) const;
  void start_job(AdmittedJob admitted, store::JobRecord record, bool restored);
  void watch_children();
  Status restore();
  Status restore_jobs();
  void restore_past(store::JobRecord record);
  void stop_if_idle();
  void enter_in_order(const JobId& job);
  void forget_job(const JobId& job);
  double now_s() const;

  // Decisions (cluster_scheduler_decisions.cc). The policy is asked soon (take), or now.
  void take(const cluster::Event& event);
  void take_now(const cluster::Event& event);
  void decide_at(double due_s);
  cluster::JobAdmitted admitted_event(const JobId& id, const JobSpec& spec,
                                      const store::JobRecord& record, bool restored) const;
  void perform(const std::vector<cluster::Effect>& effects);
  void perform_effect(const cluster::Allocation& effect);
  void perform_effect(const cluster::DemandRefused& effect);
  template <class Schema, class Fill>
  void answer(const Inbound& inbound, Fill&& fill) {
    const Head& head = inbound.frame->head;
    const auto message = Msg<Schema>::build({.job = head.job, .request = head.request}, fill);
    self_->send(gateway_, Outbound{inbound.from, message.frame()});
  }
  void refuse(const Inbound& inbound, const Error& error);

  caf::stateful_actor<ClusterSchedulerState>* self_ = nullptr;
  ClusterSchedulerOptions options_;
  caf::actor gateway_;
  std::shared_ptr<HeadStore> store_;
  std::optional<ClusterCore> core_;
  double decide_due_s_ = scheduler::kNever;  // the next decision that is planned
  std::map<JobId, Job> jobs_;
  // Companions and intra-job schedulers that live, by actor id. Outlives this state by a moment.
  std::shared_ptr<std::map<caf::actor_id, caf::actor>> children_ =
      std::make_shared<std::map<caf::actor_id, caf::actor>>();
  std::map<std::uint64_t, JobId> submit_order_;
  std::map<std::string, JobId> requests_;  // SubmitJob.requestId that have made a job
  bool listing_ = false;                   // a Listing is being made
  std::vector<Inbound> list_waiting_;      // clients for the next one
  std::vector<Inbound> shutdown_requests_;
  std::set<JobId> live_;   // jobs that are not over
  bool stopping_ = false;  // all jobs are cancelled
  bool closed_ = false;    // they stay

  std::string store_warning_;                        // why something waits; empty: nothing does
  std::deque<std::function<Status()>> kept_writes_;  // of this actor, in order

  // Strays are workers that no job knows; their devices are not free before they end. On a node
  // that was lost meanwhile all are, since jobs give up what runs on a lost node. On one that is
  // new to this head they are the incarnations below first_own_ that are not in the journal.
  std::map<PeerId, bool> was_lost_;  // of every node that has said hello to this head
  std::map<Incarnation, std::pair<JobId, DeviceId>> survivors_;
  Incarnation first_own_;
  std::map<PeerId, Arrival> arriving_;         // nodes that wait for the end of strays
  std::set<PeerId> draining_;                  // their daemons are about to end
  std::map<PeerId, DirectoryTrial> tried_;     // what that directory is on the nodes
  std::map<JobId, std::string> kept_devices_;  // why jobs keep what they are called back from
  // After a restart: nodes on which jobs run, until they have said hello or it takes too long. The
  // others wait with them, else the jobs would shrink to what has come first.
  std::set<PeerId> awaited_;
  std::vector<Arrival> held_back_;
};

caf::behavior cluster_scheduler_actor(caf::stateful_actor<ClusterSchedulerState>* self,
                                      ClusterSchedulerOptions options, caf::actor gateway,
                                      std::shared_ptr<HeadStore> store);

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::StopHead)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::CloseHead)
