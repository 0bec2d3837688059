#pragma once
// IntraJobScheduler is the actor that runs one job in the head. It owns the job's placement and
// generation, from admission to the end of the last process. It is a thin shell around IntraJob
// (intra_job.h): JobCore runs the job on the devices that it has, and JobPlanner decides what it
// asks for and gives back.
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
// Limits    kLogLinesMax log lines in memory (job_log.h); the log file contains all of them.
// Threads   Cooperative. A journal write blocks it for a fraction of a millisecond.
#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <memory>

#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/head/head_store.h"
#include "actors/head/intra_job/shell/intra_job.h"
#include "actors/head/intra_job/shell/job_mail.h"
#include "actors/head/intra_job/shell/job_timer.h"
#include "actors/head/intra_job/shell/present_nodes.h"

namespace es::actors {

struct IntraJobPeers {
  caf::actor cluster, companion, gateway;
  std::shared_ptr<HeadStore> store;
  std::shared_ptr<PresentNodes> present_nodes;
};

// The job, its mail and its timers.
class IntraJobState {
 public:
  // Quits if the history of the job cannot be read; then there is no job().
  void init(caf::stateful_actor<IntraJobState>* self, IntraJobOptions options,
            const IntraJobPeers& peers);
  IntraJob& job() { return *job_; }
  void tick();
  // The job is over and no client will ask about it. Quits after the last timer, because a timer
  // must find the actor alive.
  void leave();

 private:
  caf::stateful_actor<IntraJobState>* self_ = nullptr;
  std::unique_ptr<JobMail> mail_;
  std::unique_ptr<JobTimer> timer_;
  std::unique_ptr<IntraJob> job_;
  bool leaves_ = false;
};

caf::behavior intra_job_actor(caf::stateful_actor<IntraJobState>* self, IntraJobOptions options,
                              const IntraJobPeers& peers);

}  // namespace es::actors
