#pragma once
// ClusterScheduler is the actor that owns the devices of the cluster and the list of jobs. There is
// one in the head. It is a thin shell around ClusterCore. It also receives every frame of the
// head's gateway and passes it to the actor that it concerns.
//
// Accepts   Inbound from node agents: NodePlace, NodeHello, DrainNode, WorkerExited,
//           DirectoryTried.
//           Inbound from clients: requests (client.capnp).
//           Inbound about a job is passed on to that job's intra-job scheduler.
//           From the gateway: PeerUp, PeerDown.
//           From intra-job schedulers: Demand, DeviceReleased, DeviceSuspected, DevicesKept,
//           JobEnded, StoreFailed, HistoryUnreadable.
//           From the daemon: StopHead, CloseHead.
// Sends     Through the gateway: NodeWelcome and KillWorker to node agents, answers to clients.
//           To intra-job schedulers: Allocation, DemandRefused, Inventory, DescribeJob, CancelJob,
//           StoreRecovered, and the NodeHello and PeerDown of nodes.
// State     ClusterCore, and the jobs by id. Durable: the record of a job, before JobAccepted is
//           sent; a claim, before Done is sent; suspect devices. After a restart the jobs are
//           rebuilt from the journal, the devices from NodeHello, and their owners from both. A
//           node on which workers run that no job knows joins after these were killed and reaped.
//           The same holds for all workers of a node that was lost, because its jobs have given
//           them up.
// Fails     A request that cannot be served is refused with a reason and changes nothing. While the
//           state directory cannot be written (StoreFailed of a job, or a failed write of its own),
//           the actor accepts nothing new, tries again every second, and sends StoreRecovered to
//           the jobs when it succeeds. Writes about facts that cannot be refused wait until then.
//           When this actor dies, the daemon ends; a restarted daemon reads the journal.
// Order     Messages of one peer arrive in the order that the gateway promises. The events of a job
//           are handled in order of arrival.
// Limits    One answer to ListJobs is made at a time, for all clients that wait for it. There is no
//           other limit. An event costs as much as it changes. A decision costs what the policy
//           needs, and the events of one moment make one decision.
// Threads   Cooperative. Admission reads the data set once and blocks meanwhile. Links stay alive,
//           because the transport has a thread of its own.
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

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/head/admission/admission.h"
#include "actors/head/cluster_scheduler/core/cluster_core.h"
#include "actors/head/cluster_scheduler/core/job_filter.h"
#include "actors/head/cluster_scheduler/core/retention.h"
#include "actors/head/head_store.h"
#include "actors/head/intra_job/shell/present_nodes.h"
#include "actors/head/store_atoms.h"
#include "actors/worker/version/saved_state_files.h"
#include "proto/messages.h"
#include "store/path_roots.h"

namespace es::actors {

// Directories in which paths of clients must lie, by the way in which clients reach the head. The
// door (switchboard/shell/door.h) has decided before what the role of a client allows; only tenants
// are checked here.
struct ClientRoots {
  store::PathRoots direct;  // default: anywhere
  // The same for clients of the HTTP service, which may be anywhere.
  store::PathRoots http;
};

struct ClusterSchedulerOptions {
  std::filesystem::path log_dir;         // empty: jobs keep their logs in memory only
  std::filesystem::path checkpoint_dir;  // for checkpoints of requests without a directory
  // A random text by which nodes find out whether they see the same checkpoint_dir. Empty: not
  // checked.
  std::string probe;
  std::function<std::uint64_t()> unix_ms;  // the date, for display
  // A clock, in seconds, that measures how long decisions take. If empty they are not measured, as
  // in simulated time, where a measured time would make every history another one.
  std::function<double()> stopwatch_s;
  // Called when all jobs are over after StopHead or a Shutdown: the daemon may end.
  std::function<void()> on_stopped;
  // Called if the state directory cannot be read, so that the head cannot start. Called at most
  // once.
  std::function<void(const Error&)> on_unreadable;
  // Called when a job begins or continues under this head; may be empty.
  std::function<void(const JobId&, const JobSpec&)> on_job;
  // Returns a new policy; if empty, the default policy is used.
  std::function<std::unique_ptr<scheduler::Policy>()> make_policy;
  cluster::Limits limits;
  ClientRoots roots;
  // Events within this time make one decision; 0: the events of one moment.
  std::chrono::nanoseconds decision_delay{0};
  // Assumed time without progress at a job's first start, for the policy.
  std::chrono::nanoseconds start_pause = std::chrono::seconds(1);
  // The same for a later change, until the job has measured one.
  std::chrono::nanoseconds rescale_pause = std::chrono::milliseconds(500);
  // The same for a suspension and the restart after it.
  std::chrono::nanoseconds suspend_pause = std::chrono::seconds(3);
  // Whether clients can ask about jobs that are over. false: nothing of such a job is kept.
  bool keep_past_jobs = true;
  cluster::Retention retention;
  // Turns a submitted text and a checkpoint path into an admitted job. Tests replace it.
  std::function<Result<AdmittedJob>(const std::string& spec_toml, const std::string& checkpoint)>
      admit = es::actors::admit;
};

// From the daemon: cancel all jobs, then call on_stopped.
struct StopHead {};

// From the actor to itself: it is time to ask the policy.
using DecideAtom = caf::atom_constant<caf::atom("decide")>;

// From the actor to itself: the nodes of the journal had time to return.
using ReturnTimeoutAtom = caf::atom_constant<caf::atom("returned")>;

// From the actor to itself: jobs that are over may have to be removed.
using TidyAtom = caf::atom_constant<caf::atom("tidy")>;
using WatchAgesAtom = caf::atom_constant<caf::atom("ages")>;

// From the daemon: accept no new job. This head ends when its node has drained, and its jobs
// continue under the next head.
struct CloseHead {};

class ClusterSchedulerState {
 public:
  void init(caf::stateful_actor<ClusterSchedulerState>* self, ClusterSchedulerOptions options,
            caf::actor gateway, std::shared_ptr<HeadStore> store);
  void on_inbound(const Inbound& inbound);
  void on_peer_down(const PeerDown& down);
  void on_demand(const JobId& job, wire::Demand::Reader r);
  void on_job_message(const JobId& job, cluster::JobMessage message);
  void on_devices_work(const JobId& job, protocol::DevicesWork message);
  void on_suspected(const protocol::DeviceSuspected& suspected);
  void on_device_failed(const JobId& job, protocol::DeviceFailed failed);
  void on_devices_kept(const JobId& job, const protocol::DevicesKept& kept);
  void on_ended(const JobId& job);
  void on_return_timeout();
  void on_decide(double due_s);
  void on_store_failed(const std::string& reason);
  void on_try_store();
  void on_history_unreadable(const std::string& reason);
  void tidy();
  void watch_ages();
  void stop();
  void close();

 private:
  // What a list shows of a job.
  struct Listed {
    std::string id, name, state, tenant;
    bool over = false;
    std::uint64_t ended_unix_ms = 0;
    bool may_change = false;  // it is not over, or its end is not written yet
    Msg<wire::JobDetails> details;
  };
  struct Job {
    caf::actor actor;
    bool over = false;
    caf::actor companion{};    // none if the job was over before this head started
    std::uint64_t number = 0;  // key in submit_order_
    std::string tenant{};      // empty: none
    std::string request{};     // SubmitJob.requestId; empty: none
    // Of a job that is over, once it was asked; null before.
    std::shared_ptr<const Listed> end{};
  };
  using ClientRequest = std::pair<PeerId, std::uint64_t>;

  // An unfinished answer to ListJobs, with the details of the jobs in submit order.
  struct Listing {
    struct Client {
      Inbound request;
      cluster::JobFilter filter;
    };
    std::vector<Client> clients;
    std::vector<std::shared_ptr<const Listed>> jobs;
    std::size_t missing = 0;
    bool failed = false;
  };

  // The contents of a NodeHello.
  struct Arrival {
    std::string name;
    DeviceSet devices;
    std::vector<Incarnation> workers;  // worker processes on the node
    std::set<Incarnation> strays;      // those of them that were killed and are not reaped yet
  };

  // Nodes (cluster_scheduler_nodes.cc).
  void on_node_place(const Inbound& inbound);
  void on_node_hello(const Inbound& inbound);
  std::set<Incarnation> strays_of(const PeerId& node, const std::vector<Incarnation>& workers);
  void on_drain_node(const Inbound& inbound);
  void on_worker_exited(const Inbound& inbound);
  Status restore_vacated();
  void vacate_node(const Inbound& inbound);
  void vacate(const std::string& node, std::uint64_t gone_unix_ms);
  void forget_gone(const std::string& node);
  bool is_present(const DevicePool::NodeView& node) const;
  void admit_node(const Arrival& node);
  void stop_waiting_for_nodes();
  void join_node(const Arrival& node);
  void write_probe_file();
  void on_directory_tried(const Inbound& inbound);
  void fill_claims(const Inbound& inbound, wire::NodeList::Builder b) const;
  void fill_nodes(const Inbound& inbound, wire::NodeList::Builder b) const;
  void fill_queues(const Inbound& inbound, wire::NodeList::Builder b) const;
  void list_nodes(const Inbound& inbound);
  Msg<wire::Inventory> inventory();
  void send_inventory();

  void shut_down(const Inbound& inbound);
  void forward_to_job(const Inbound& inbound);
  Status fill_in_checkpoint_directory(Inbound& inbound, const JobId& job);
  JobId find_job(const JobId& named) const;
  // The client that sends, if its rights are known; nullptr: it may see all jobs.
  static const access::Identity* client_of(const Inbound& inbound);
  Status check_tenant(const Inbound& inbound) const;
  bool shows(const Inbound& inbound, const JobId& job) const;
  const store::PathRoots& roots_of(const PeerId& client) const;
  void watch_children();
  Status restore();
  void stop_if_idle();
  double now_s() const;
  std::uint64_t unix_ms_at(double time_s) const;

  // Jobs (cluster_scheduler_jobs.cc).
  void submit(const Inbound& inbound);
  Status check_fits(const JobSpec& spec) const;
  void start_job(AdmittedJob admitted, JobRecord record, bool restored);
  Status restore_jobs();
  std::filesystem::path log_file_of(const JobId& job) const;
  void enter_in_order(const JobId& job);

  // Jobs that are over (cluster_scheduler_past.cc).
  void restore_past(JobRecord record);
  void ask_for_end(const JobId& job);
  void keep_end(const JobId& job, const std::shared_ptr<const Listed>& end);
  void remove_job(const Inbound& inbound);
  void remove_past(const Inbound& inbound, const JobId& job);
  Status remove_now(const JobId& job);
  void forget_actors(const JobId& job);
  void tidy_soon();

  // The list of jobs (cluster_scheduler_list.cc).
  void list_jobs(const Inbound& inbound);
  void gather_jobs();
  static std::shared_ptr<const Listed> listed(const Msg<wire::JobDetails>& details);
  void answer_list(const Listing& listing);
  Msg<wire::JobList> list_for(const Listing& listing, const cluster::JobFilter& filter,
                              const access::Identity* who) const;
  void end_listing();

  // Suspect devices and ledgers (cluster_scheduler_audit.cc).
  Status restore_suspects();
  void clear_device(const Inbound& inbound);
  void read_ledger(const Inbound& inbound);

  // A state directory that cannot be written (cluster_scheduler_store.cc).
  Status check_accepting();
  Status not_written(const Status& failed);
  void write_when_possible(std::function<Status()> write);
  std::string store_warning() const;

  // Claims (cluster_scheduler_claims.cc).
  Status restore_claims();
  Status restore_usage();
  void save_usage();
  void claim_devices(const Inbound& inbound);
  void resize_claim(const Inbound& inbound, const cluster::ClaimResized& claim);
  void reserve_devices(const Inbound& inbound);
  Result<std::string> reserved_queue(const std::string& queue, const std::string& tenant) const;
  cluster::ClaimMade claim_of(const store::ClaimRecord& record) const;
  void save_claim(const Inbound& inbound, const store::ClaimRecord& record,
                  const cluster::Event& event);
  void forget_ended_claims();
  void release_claim(const Inbound& inbound);

  // Decisions (cluster_scheduler_decisions.cc). After take() the policy is asked soon, after
  // take_now() at once.
  void take(const cluster::Event& event);
  void take_now(const cluster::Event& event);
  void decide_at(double due_s);
  cluster::JobAdmitted admitted_event(const JobId& id, const JobSpec& spec, const JobRecord& record,
                                      bool restored) const;
  void perform(const std::vector<cluster::Effect>& effects);
  template <class Schema, class Fill>
  void answer(const Inbound& inbound, Fill&& fill) {
    const Envelope& envelope = inbound.frame->envelope;
    const auto message =
        Msg<Schema>::build({.job = envelope.job, .request = envelope.request}, fill);
    self_->send(gateway_, Outbound{inbound.from, message.frame()});
  }
  void refuse(const Inbound& inbound, const Error& error);

  caf::stateful_actor<ClusterSchedulerState>* self_ = nullptr;
  ClusterSchedulerOptions options_;
  caf::actor gateway_;
  std::shared_ptr<HeadStore> store_;
  std::optional<ClusterCore> core_;
  double decide_due_s_ = scheduler::kNever.count();  // time of the next planned decision
  DecisionTimes decision_times_;
  std::map<JobId, Job> jobs_;
  // The running companions and intra-job schedulers, by actor id. Shared with a functor that ends
  // them after this state is gone.
  std::shared_ptr<std::map<caf::actor_id, caf::actor>> children_ =
      std::make_shared<std::map<caf::actor_id, caf::actor>>();
  std::map<std::uint64_t, JobId> submit_order_;
  std::map<std::string, JobId> requests_;  // SubmitJob.requestId of each job that was made by one
  bool listing_ = false;                   // a Listing is being made
  std::vector<Listing::Client> list_waiting_;  // clients that the next Listing answers
  std::vector<Inbound> shutdown_requests_;
  std::set<JobId> live_jobs_;  // jobs that are not over
  bool tidies_ = false;        // a TidyAtom is on its way
  bool stopping_ = false;      // all jobs are cancelled
  bool closed_ = false;        // no new jobs; the existing ones stay

  std::string store_warning_;                           // why writes wait; empty: none do
  std::deque<std::function<Status()>> waiting_writes_;  // writes of this actor that wait, in order

  // Strays are worker processes that no job knows; their devices are not free before they end. On a
  // node that was lost in between, all workers are strays, because jobs give up what runs on a lost
  // node. On a node that is new to this head, strays are the incarnations below
  // first_own_incarnation_ that are not in the journal.
  std::map<PeerId, bool> node_was_lost_;  // for each node that has said hello to this head
  std::map<Incarnation, std::pair<JobId, DeviceId>> journaled_workers_;
  Incarnation first_own_incarnation_;
  std::map<PeerId, Arrival> arriving_nodes_;  // nodes that wait until their strays have ended
  std::set<PeerId> draining_nodes_;           // nodes whose daemons are about to end
  // The last message of inventory(), valid while these devices exist and no node has come or left.
  std::optional<Msg<wire::Inventory>> inventory_;
  DeviceSet inventory_devices_;
  const std::shared_ptr<PresentNodes> present_nodes_ = std::make_shared<PresentNodes>();
  std::map<PeerId, DirectoryTrial> directory_trials_;  // checks of checkpoint_dir, by node
  std::map<PeerId, std::int64_t> clocks_ahead_ms_;     // of nodes, when they said hello
  std::map<PeerId, NodePlace> node_places_;            // of nodes that have told them
  // Nodes that jobs have to leave: when they will be gone, or 0, and the same in the journal.
  struct Vacated {
    double gone_s = 0;
    std::uint64_t gone_unix_ms = 0;
  };
  std::map<std::string, Vacated> vacated_;
  // From and until of the claims, as in the journal, by name.
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> claim_times_;
  std::map<JobId, std::string> kept_devices_;  // why jobs keep devices that were called back
  // After a restart: the nodes with workers of jobs that have not said hello, until a time limit.
  // Other nodes wait in nodes_held_back_ until then; otherwise jobs would shrink to the nodes that
  // came first.
  std::set<PeerId> awaited_nodes_;
  std::vector<Arrival> nodes_held_back_;
};

caf::behavior cluster_scheduler_actor(caf::stateful_actor<ClusterSchedulerState>* self,
                                      ClusterSchedulerOptions options, caf::actor gateway,
                                      std::shared_ptr<HeadStore> store);

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::StopHead)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::CloseHead)
