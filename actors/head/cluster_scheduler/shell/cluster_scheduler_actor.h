#pragma once
// ClusterScheduler is the actor that owns the devices of the cluster and the list of jobs. There is
// one in the head. It also receives every frame of the head's gateway and passes it to the actor
// that it concerns. It decides nothing: it takes each message to the part that it concerns. The
// parts are classes of their own, whose headers say what they own; they know each other, but not
// the actor.
//
// Accepts   Inbound from node agents: NodePlace, NodeHello, DrainNode, WorkerExited,
//           DirectoryTried, WorkerLog.
//           Inbound from clients: requests (client.capnp).
//           Inbound about a job is passed on to that job's intra-job scheduler.
//           From the gateway: PeerUp, PeerDown.
//           From intra-job schedulers: Demand, DeviceReleased, DeviceSuspected, DevicesKept,
//           JobEnded, StoreFailed, HistoryUnreadable.
//           From companions: CapabilityReport.
//           From the daemon: StopHead, CloseHead.
// Sends     Through the gateway: NodeWelcome, KillWorker and ReadWorkerLog to node agents, answers
//           to clients.
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

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/head/cluster_scheduler/core/job_table.h"
#include "actors/head/cluster_scheduler/core/node_book.h"
#include "actors/head/cluster_scheduler/shell/claims.h"
#include "actors/head/cluster_scheduler/shell/cluster_clock.h"
#include "actors/head/cluster_scheduler/shell/cluster_scheduler_options.h"
#include "actors/head/cluster_scheduler/shell/decisions.h"
#include "actors/head/cluster_scheduler/shell/durable_writes.h"
#include "actors/head/cluster_scheduler/shell/inventory_message.h"
#include "actors/head/cluster_scheduler/shell/job_actors.h"
#include "actors/head/cluster_scheduler/shell/job_intake.h"
#include "actors/head/cluster_scheduler/shell/job_lists.h"
#include "actors/head/cluster_scheduler/shell/node_list.h"
#include "actors/head/cluster_scheduler/shell/nodes.h"
#include "actors/head/cluster_scheduler/shell/nodes_to_leave.h"
#include "actors/head/cluster_scheduler/shell/past_jobs.h"
#include "actors/head/cluster_scheduler/shell/queue_usage.h"
#include "actors/head/cluster_scheduler/shell/replies.h"
#include "actors/head/cluster_scheduler/shell/suspects.h"
#include "actors/head/head_store.h"

namespace es::actors {

// From the daemon: cancel all jobs, then call on_stopped.
struct StopHead {};

// From the daemon: accept no new job. This head ends when its node has drained, and its jobs
// continue under the next head.
struct CloseHead {};

// The parts of the actor, in the order in which they may use each other.
class ClusterScheduler {
 public:
  ClusterScheduler(caf::event_based_actor* self, ClusterSchedulerOptions options,
                   caf::actor gateway, std::shared_ptr<HeadStore> store);
  // Reads the journal. Calls options.on_unreadable if that fails.
  void start();
  caf::behavior behavior();

 private:
  // Through the gateway.
  void on_inbound(const Inbound& inbound);
  Status check_tenant(const Inbound& inbound) const;
  void on_worker_exited(const Inbound& inbound);
  void submit(const Inbound& inbound);
  void list_nodes(const Inbound& inbound);
  void read_ledger(const Inbound& inbound);
  void read_worker_log(const Inbound& inbound);
  void clear_device(const Inbound& inbound);
  void vacate_node(const Inbound& inbound);
  void forward_to_job(const Inbound& inbound);
  void on_peer_down(const PeerDown& down);
  void shut_down(const Inbound& inbound);

  // From jobs.
  void on_job_message(const JobId& job, cluster::JobMessage message);
  void on_device_failed(const JobId& job, protocol::DeviceFailed failed);
  void on_suspected(const protocol::DeviceSuspected& suspected);
  void on_speeds_changed(const JobId& measured_by);
  void on_ended(const JobId& job);

  Status restore();
  void send_inventory();
  void on_try_store();
  void stop();
  void stop_if_idle();

  caf::event_based_actor* const self_;
  const ClusterSchedulerOptions options_;
  const std::shared_ptr<HeadStore> store_;
  const ClusterClock clock_;
  const Replies replies_;
  DurableWrites writes_;
  JobTable jobs_;
  JobActors actors_;
  Decisions decisions_;
  QueueUsage usage_;
  Claims claims_;
  Suspects suspects_;
  NodeBook book_;
  InventoryMessage inventory_;
  NodesToLeave to_leave_;
  Nodes nodes_;
  NodeList node_list_;
  PastJobs past_;
  JobIntake intake_;
  JobLists lists_;
  bool stopping_ = false;  // all jobs are cancelled
  std::vector<Inbound> shutdown_requests_;
};

// CAF makes the state of an actor before its arguments are known.
struct ClusterSchedulerState {
  std::optional<ClusterScheduler> scheduler;
};

caf::behavior cluster_scheduler_actor(caf::stateful_actor<ClusterSchedulerState>* self,
                                      ClusterSchedulerOptions options, caf::actor gateway,
                                      std::shared_ptr<HeadStore> store);

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::StopHead)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::CloseHead)
