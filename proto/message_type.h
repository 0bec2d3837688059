#pragma once
// The type number of every message, and Envelope, the fields of an envelope as a plain value. New
// numbers are only added, and a number is never given to another message. Types from kFirstLocal on
// never leave a process.
#include <cstdint>
#include <string>

#include "proto/base/ids.h"

namespace es {

// Version of the protocol (Envelope.protocol).
inline constexpr std::uint16_t kProtocolVersion = 4;

enum class MessageType : std::uint16_t {
  kNone = 0,
  // step.capnp: worker <-> worker
  kContrib = 1,
  kReduced = 2,
  kFetch = 3,
  kState = 4,
  kFetchPart = 5,
  kBulkPart = 6,
  kOpenChannel = 7,
  // round.capnp: head <-> worker
  kHello = 10,
  kPrepare = 11,
  kReport = 12,
  kInstall = 13,
  kReady = 14,
  kGo = 15,
  kRelease = 16,
  kDrain = 17,
  kDrained = 18,
  kCommitted = 19,
  kSuspect = 20,
  kWriteCheckpoint = 21,
  kCheckpointWritten = 22,
  kEvaluated = 23,
  kFailed = 24,
  kAcknowledge = 25,
  kWorkerStats = 26,
  kAudit = 27,
  kAudited = 28,
  kAuditPassed = 29,
  kCheckpointUnreadable = 30,
  // trace.capnp: head <-> worker
  kTraceWorker = 31,
  kTraceAnswer = 32,
  kTracePart = 33,  // and on to a client
  // node.capnp: head <-> node agent
  kNodeHello = 40,
  kNodeWelcome = 41,
  kStartWorker = 43,
  kKillWorker = 44,
  kWorkerExited = 45,
  kDrainNode = 46,
  kDirectoryTried = 47,
  kFindStates = 48,
  kStatesFound = 49,
  kRemoveStates = 50,
  kStatesRemoved = 51,
  // worker -> head -> node agent, and back
  kReadState = 52,
  kStatePart = 53,
  kNodePlace = 54,  // node agent -> head
  // client.capnp: esctl <-> head
  kSubmitJob = 60,
  kListJobs = 61,
  kDescribeJob = 62,
  kScaleJob = 63,
  kCheckpointJob = 64,
  kCancelJob = 65,
  kFollowJob = 66,
  kListNodes = 67,
  kShutdown = 68,
  kReadLedger = 69,
  kClearDevice = 70,
  kPauseJob = 71,
  kResumeJob = 72,
  kListPlans = 73,
  kClaimDevices = 74,
  kReleaseClaim = 75,
  kTraceJob = 76,  // trace.capnp
  kReserveDevices = 77,
  kVacateNode = 78,
  kBudgetJob = 79,
  kJobAccepted = 80,
  kJobList = 81,
  kJobDetails = 82,
  kDone = 83,
  kCheckpointTaken = 84,
  kJobEvent = 85,
  kNodeList = 86,
  kRefusal = 87,
  kLedgerPart = 88,
  kPlanList = 89,
  kTraceEnd = 90,  // trace.capnp
  kRemoveJob = 91,
  // cluster.capnp: inside the head, never on a wire
  kDemand = 100,
  kAllocation = 101,
  kDemandRefused = 102,
  kDeviceReleased = 103,
  kJobEnded = 104,
  kPlanQuery = 105,
  kPlanAnswer = 106,
  kCapabilityReport = 107,
  kInventory = 108,
  kDeviceSuspected = 109,
  kPlanListQuery = 110,
  kDevicesKept = 111,
  // slice.capnp: inside a worker, never on a wire
  kGrantSlice = 120,
  kLoadBatch = 121,
  kBatchLoaded = 122,
  kBatchDone = 123,
  kRunLocalStep = 124,
  kSliceDone = 125,
  kDismiss = 126,
  kNextSlice = 127,
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
