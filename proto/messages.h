#pragma once
// Maps every schema struct that is a message of its own to its type number (proto/message_type.h).
#include "client.capnp.h"
#include "cluster.capnp.h"
#include "common.capnp.h"
#include "node.capnp.h"
#include "proto/msg.h"
#include "round.capnp.h"
#include "slice.capnp.h"
#include "step.capnp.h"
#include "trace.capnp.h"

namespace es {

#define ES_MESSAGE(Name)                                       \
  template <>                                                  \
  struct MessageTypeOf<wire::Name> {                           \
    static constexpr MessageType value = MessageType::k##Name; \
  }

// step.capnp
ES_MESSAGE(Contrib);
ES_MESSAGE(Reduced);
ES_MESSAGE(Fetch);
ES_MESSAGE(State);
ES_MESSAGE(FetchPart);
ES_MESSAGE(BulkPart);
ES_MESSAGE(OpenChannel);
// round.capnp
ES_MESSAGE(Hello);
ES_MESSAGE(Prepare);
ES_MESSAGE(Report);
ES_MESSAGE(Install);
ES_MESSAGE(Ready);
ES_MESSAGE(Go);
ES_MESSAGE(Release);
ES_MESSAGE(Drain);
ES_MESSAGE(Drained);
ES_MESSAGE(Committed);
ES_MESSAGE(Acknowledge);
ES_MESSAGE(Suspect);
ES_MESSAGE(WriteCheckpoint);
ES_MESSAGE(CheckpointWritten);
ES_MESSAGE(CheckpointUnreadable);
ES_MESSAGE(Evaluated);
ES_MESSAGE(Failed);
ES_MESSAGE(WorkerStats);
ES_MESSAGE(Audit);
ES_MESSAGE(Audited);
ES_MESSAGE(AuditPassed);
// trace.capnp
ES_MESSAGE(TraceJob);
ES_MESSAGE(TraceWorker);
ES_MESSAGE(TraceAnswer);
ES_MESSAGE(TracePart);
ES_MESSAGE(TraceEnd);
// node.capnp
ES_MESSAGE(NodeHello);
ES_MESSAGE(NodeWelcome);
ES_MESSAGE(StartWorker);
ES_MESSAGE(KillWorker);
ES_MESSAGE(WorkerExited);
ES_MESSAGE(DrainNode);
ES_MESSAGE(DirectoryTried);
ES_MESSAGE(FindStates);
ES_MESSAGE(StatesFound);
ES_MESSAGE(RemoveStates);
ES_MESSAGE(StatesRemoved);
ES_MESSAGE(ReadState);
ES_MESSAGE(StatePart);
ES_MESSAGE(NodePlace);
// client.capnp
ES_MESSAGE(SubmitJob);
ES_MESSAGE(ListJobs);
ES_MESSAGE(DescribeJob);
ES_MESSAGE(ScaleJob);
ES_MESSAGE(CheckpointJob);
ES_MESSAGE(CancelJob);
ES_MESSAGE(FollowJob);
ES_MESSAGE(BudgetJob);
ES_MESSAGE(RemoveJob);
ES_MESSAGE(PauseJob);
ES_MESSAGE(ResumeJob);
ES_MESSAGE(ListNodes);
ES_MESSAGE(Shutdown);
ES_MESSAGE(ReadLedger);
ES_MESSAGE(ClearDevice);
ES_MESSAGE(ListPlans);
ES_MESSAGE(ClaimDevices);
ES_MESSAGE(ReleaseClaim);
ES_MESSAGE(ReserveDevices);
ES_MESSAGE(VacateNode);
ES_MESSAGE(JobAccepted);
ES_MESSAGE(JobList);
ES_MESSAGE(JobDetails);
ES_MESSAGE(Done);
ES_MESSAGE(CheckpointTaken);
ES_MESSAGE(JobEvent);
ES_MESSAGE(NodeList);
ES_MESSAGE(Refusal);
ES_MESSAGE(LedgerPart);
ES_MESSAGE(PlanList);
// cluster.capnp
ES_MESSAGE(Demand);
ES_MESSAGE(Allocation);
ES_MESSAGE(DemandRefused);
ES_MESSAGE(DeviceReleased);
ES_MESSAGE(JobEnded);
ES_MESSAGE(PlanQuery);
ES_MESSAGE(PlanAnswer);
ES_MESSAGE(CapabilityReport);
ES_MESSAGE(Inventory);
ES_MESSAGE(DeviceSuspected);
ES_MESSAGE(PlanListQuery);
ES_MESSAGE(DevicesKept);
// slice.capnp
ES_MESSAGE(GrantSlice);
ES_MESSAGE(LoadBatch);
ES_MESSAGE(BatchLoaded);
ES_MESSAGE(BatchDone);
ES_MESSAGE(RunLocalStep);
ES_MESSAGE(SliceDone);
ES_MESSAGE(Dismiss);
ES_MESSAGE(NextSlice);

#undef ES_MESSAGE

}  // namespace es
