#pragma once
// The type number of every message, and Envelope, the fields of an envelope as a plain value. New
// numbers are only added, and a number is never given to another message. Types from kFirstLocal on
// never leave a process.
#include <cstdint>
#include <string>

#include "proto/base/ids.h"

namespace es {

// Version of the protocol (Envelope.protocol).
inline constexpr std::uint16_t kProtocolVersion = 5;

// The messages and their numbers, by the schema that has them. What may arrive from another process
// (proto/frame.cc) and which type has which struct (proto/messages.h) follow from these tables.
//
// step.capnp: worker <-> worker
#define ES_STEP_MESSAGES(X) \
  X(Contrib, 1)             \
  X(Reduced, 2)             \
  X(Fetch, 3)               \
  X(State, 4)               \
  X(FetchPart, 5)           \
  X(BulkPart, 6)            \
  X(OpenChannel, 7)         \
  X(Complete, 8)            \
  X(Updated, 9)             \
  X(FetchShards, 35)        \
  X(Shards, 36)
// round.capnp: head <-> worker
#define ES_ROUND_MESSAGES(X)  \
  X(Hello, 10)                \
  X(Prepare, 11)              \
  X(Report, 12)               \
  X(Install, 13)              \
  X(Ready, 14)                \
  X(Go, 15)                   \
  X(Release, 16)              \
  X(Drain, 17)                \
  X(Drained, 18)              \
  X(Committed, 19)            \
  X(Suspect, 20)              \
  X(WriteCheckpoint, 21)      \
  X(CheckpointWritten, 22)    \
  X(Evaluated, 23)            \
  X(Failed, 24)               \
  X(Acknowledge, 25)          \
  X(WorkerStats, 26)          \
  X(Audit, 27)                \
  X(Audited, 28)              \
  X(AuditPassed, 29)          \
  X(CheckpointUnreadable, 30) \
  X(Decided, 34)
// trace.capnp: head <-> worker; TraceJob, TracePart and TraceEnd between esctl and head
#define ES_TRACE_MESSAGES(X) \
  X(TraceWorker, 31)         \
  X(TraceAnswer, 32)         \
  X(TracePart, 33)           \
  X(TraceJob, 76)            \
  X(TraceEnd, 90)
// node.capnp: head <-> node agent; ReadState and StatePart also between a worker and the head,
// ReadWorkerLog and WorkerLog between a client and the head
#define ES_NODE_MESSAGES(X) \
  X(NodeHello, 40)          \
  X(NodeWelcome, 41)        \
  X(StartWorker, 43)        \
  X(KillWorker, 44)         \
  X(WorkerExited, 45)       \
  X(DrainNode, 46)          \
  X(DirectoryTried, 47)     \
  X(FindStates, 48)         \
  X(StatesFound, 49)        \
  X(RemoveStates, 50)       \
  X(StatesRemoved, 51)      \
  X(ReadState, 52)          \
  X(StatePart, 53)          \
  X(NodePlace, 54)          \
  X(ReadWorkerLog, 55)      \
  X(WorkerLog, 56)
// client.capnp: esctl <-> head
#define ES_CLIENT_MESSAGES(X) \
  X(SubmitJob, 60)            \
  X(ListJobs, 61)             \
  X(DescribeJob, 62)          \
  X(ScaleJob, 63)             \
  X(CheckpointJob, 64)        \
  X(CancelJob, 65)            \
  X(FollowJob, 66)            \
  X(ListNodes, 67)            \
  X(Shutdown, 68)             \
  X(ReadLedger, 69)           \
  X(ClearDevice, 70)          \
  X(PauseJob, 71)             \
  X(ResumeJob, 72)            \
  X(ListPlans, 73)            \
  X(ClaimDevices, 74)         \
  X(ReleaseClaim, 75)         \
  X(ReserveDevices, 77)       \
  X(VacateNode, 78)           \
  X(BudgetJob, 79)            \
  X(JobAccepted, 80)          \
  X(JobList, 81)              \
  X(JobDetails, 82)           \
  X(Done, 83)                 \
  X(CheckpointTaken, 84)      \
  X(JobEvent, 85)             \
  X(NodeList, 86)             \
  X(Refusal, 87)              \
  X(LedgerPart, 88)           \
  X(PlanList, 89)             \
  X(RemoveJob, 91)
// cluster.capnp: inside the head, never on a wire
#define ES_CLUSTER_MESSAGES(X) \
  X(Demand, 100)               \
  X(Allocation, 101)           \
  X(DemandRefused, 102)        \
  X(DeviceReleased, 103)       \
  X(JobEnded, 104)             \
  X(PlanQuery, 105)            \
  X(PlanAnswer, 106)           \
  X(CapabilityReport, 107)     \
  X(Inventory, 108)            \
  X(DeviceSuspected, 109)      \
  X(PlanListQuery, 110)        \
  X(DevicesKept, 111)          \
  X(DeviceFailed, 112)         \
  X(DevicesWork, 113)
// slice.capnp: inside a worker, never on a wire
#define ES_SLICE_MESSAGES(X) \
  X(GrantSlice, 120)         \
  X(LoadBatch, 121)          \
  X(BatchLoaded, 122)        \
  X(BatchDone, 123)          \
  X(RunLocalStep, 124)       \
  X(SliceDone, 125)          \
  X(Dismiss, 126)            \
  X(NextSlice, 127)

// Those that may arrive from another process, and all.
#define ES_WIRE_MESSAGES(X) \
  ES_STEP_MESSAGES(X)       \
  ES_ROUND_MESSAGES(X)      \
  ES_TRACE_MESSAGES(X)      \
  ES_NODE_MESSAGES(X)       \
  ES_CLIENT_MESSAGES(X)
#define ES_MESSAGES(X)   \
  ES_WIRE_MESSAGES(X)    \
  ES_CLUSTER_MESSAGES(X) \
  ES_SLICE_MESSAGES(X)

enum class MessageType : std::uint16_t {
  kNone = 0,
#define ES_NUMBER(Name, Number) k##Name = Number,
  ES_MESSAGES(ES_NUMBER)
#undef ES_NUMBER
};

inline constexpr MessageType kFirstLocal = MessageType::kDemand;

// The envelope of a message. `job` is empty, and a number is 0, where it has no meaning.
struct Envelope {
  MessageType type = MessageType::kNone;
  JobId job;
  Generation generation;
  Version step = 0;
  Incarnation sender;
  std::uint64_t request = 0;
  bool operator==(const Envelope&) const = default;
};

}  // namespace es
