#pragma once
// What goes into the head core of one job and what comes out of it. Messages between head and
// workers are in protocol/messages.h.
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/protocol/instant.h"
#include "actors/protocol/messages.h"
#include "proto/base/device.h"
#include "proto/base/digest.h"
#include "proto/base/ids.h"
#include "proto/base/job_spec.h"

namespace es::actors::intra_job {

enum class JobState {
  kQueued,
  kStarting,
  kRunning,
  kRescaling,
  kPaused,
  kFinished,
  kFailed,
  kCancelled
};
const char* state_name(JobState state);
inline bool is_over(JobState state) {
  return state >= JobState::kFinished;
}

struct Config {
  JobSpec spec;
  Version last_version = 0;        // total global steps of the job, > 0
  std::uint32_t bucket_count = 1;  // of the model's flat parameters
  // Where the run begins: FromSeed at version 0, or FromCheckpoint at that checkpoint's version.
  // The spec's stages count their steps from here.
  protocol::Source start = protocol::FromSeed{};
  Version start_version = 0;
  protocol::VersionDigests start_digests{};           // of the checkpoint
  std::string checkpoint_directory;                   // parent of the job's own checkpoints
  Version acknowledge_every = 64;                     // ledger lines between two Acknowledge
  Instant drain_timeout = std::chrono::seconds(30);   // then a round without drain
  Instant exit_timeout = std::chrono::seconds(5);     // from Release to kill
  Instant report_timeout = std::chrono::seconds(30);  // from Prepare to Report, then evicted
  Instant start_timeout = std::chrono::minutes(10);   // from the start of a process to its Hello
  // Workers tell only some versions (simulations: the end, and where a placement stops).
  bool sparse_ledger = false;
  // Where the checkpoint of a job that gives up all its devices goes; the generation is appended.
  // A path on the disk of the node that writes; empty: none is ever removed.
  std::string suspend_prefix;
};

// Decisions that the core leaves to others. Both are pure or give a fresh value.
struct Services {
  // Unique in the cluster, never reused, > 0.
  std::function<Incarnation()> next_incarnation;
  // Range d is that of device d: contiguous, not empty, together [0, max_p). The order of the
  // devices is that of their workers' incarnations. REQUIRES: 1 <= devices <= max_p.
  std::function<std::vector<RankRange>(std::uint32_t max_p, const std::vector<DeviceId>& devices)>
      assign_ranks;
};

// --- journal -----------------------------------------------------------------------------------

struct KnownWorker {
  Incarnation incarnation;
  DeviceId device;
  std::string address;
  std::string host_id;
  bool operator==(const KnownWorker&) const = default;
};

struct CheckpointRef {
  std::string path;
  Version version = 0;
  bool periodic = false;               // of the job's own series, which removes what is too old
  std::set<std::string> nodes{};       // on whose disks it was written; empty: not known
  protocol::VersionDigests digests{};  // both zero: not known
  bool operator==(const CheckpointRef&) const = default;
};

// What must survive the head. Target and placement are not in it: a restarted head runs a fresh
// round and computes both from sealed reports.
struct JobRecord {
  JobState state = JobState::kQueued;
  std::string error;  // why it failed
  Generation generation;
  std::vector<KnownWorker> known;
  std::optional<CheckpointRef> checkpoint;  // the newest valid one that this run wrote
  std::vector<CheckpointRef> older;         // to go back to when that is damaged, newest first
  std::optional<DeviceSet> pinned;          // the last accepted `scale`
  // At D0 and D1: the type on which the job began to compute. Its kernels decide the bits, so the
  // job uses no other type from then on. None: at D2, of a staged job, and before the first step.
  std::optional<DeviceType> bound_type;
  // Of the job's own series, and void since an audit: to be removed from the disk.
  std::vector<CheckpointRef> spoiled;
  // Paths of states that a recovery of the journal has kept apart: they stay on the disk.
  std::vector<std::string> set_aside{};
  // Lines and evaluations after this version are void and may still be on the disk.
  std::optional<Version> rewinding;
  bool operator==(const JobRecord&) const = default;
};

// What the run ledger on disk says, for a restarted head. `lines` ascend without gap from the
// version after Config.start_version.
struct LedgerHistory {
  std::vector<protocol::LedgerLine> lines;
  std::vector<std::pair<Version, Digest>> evaluations{};  // of their totals
};

// --- events ------------------------------------------------------------------------------------

// Cluster scheduler: all devices that the job may hold from now on. An older sequence is stale.
// After a restart of the head it does not list a device on which a process runs that the job's
// journal does not know, before that process is reaped.
struct Allocation {
  std::uint64_t sequence = 0;
  // How many DeviceReleased of this job the sender had processed. A device that the job has
  // released since then is not the job's any more, though it is listed.
  std::uint64_t releases_seen = 0;
  std::vector<DeviceId> devices;
  // What is missing is about to end: with nothing left, the job writes a checkpoint and waits.
  bool urgent = false;
};

// Cluster scheduler: the last Demand can never be met.
struct DemandRefused {
  std::string reason;
};

// Node agent: the process is reaped, its device is free.
struct WorkerExited {
  Incarnation incarnation;
  std::string description;  // for people: status or signal, and its last words
  bool with_node = false;   // its node was lost or started anew: the process is not to blame
};

// The process is silent or cut off. It may still run; it is evicted.
struct WorkerLost {
  Incarnation incarnation;
  std::string reason;
};

// Go to exactly these devices; none: give the choice back to the cluster scheduler.
struct ScaleCommand {
  std::uint64_t request = 0;
  std::optional<DeviceSet> devices;
};

struct CheckpointCommand {
  std::uint64_t request = 0;
  std::string directory;  // must not exist
  // Of the last version that the job comes to: at its end, or where it is cancelled, which then
  // waits for this one.
  bool at_end = false;
  std::string
      otherwise{};  // where it goes when it cannot be written to `directory`; empty: nowhere
};

// Write a checkpoint, end all workers, give all devices back, and wait for ResumeCommand.
struct PauseCommand {
  std::uint64_t request = 0;
};

struct ResumeCommand {
  std::uint64_t request = 0;
  // Give up the saved states that nobody can read now. Also for a job that waits for one of them.
  bool accept_loss = false;
};

// The nodes that are there, all of them, those that are about to end included.
struct NodesPresent {
  std::set<std::string> nodes;
};

// A node says hello: again, perhaps, after its daemon or its link was away. What was on its way to
// or from it may be lost.
struct NodeSaidHello {
  std::string node;
};

// Answer to FindStates.
struct StateFound {
  CheckpointRef state;  // path, version and digests
  protocol::Sight sight = protocol::Sight::kUnclear;
  std::string error;  // why not whole
};
struct StatesFound {
  std::string node;
  std::vector<StateFound> states;
};

struct CancelCommand {
  std::uint64_t request = 0;
};

// The devices' speeds ask for other ranks on the same devices (scheduler/rebalance.h).
struct RebalanceCommand {};

// The job goes on without these devices and gives them back: it is as fast without them, or faster.
struct GiveBackCommand {
  std::vector<DeviceId> devices;
};

using Event =
    std::variant<Allocation, DemandRefused, WorkerExited, WorkerLost, ScaleCommand,
                 CheckpointCommand, PauseCommand, ResumeCommand, CancelCommand, RebalanceCommand,
                 GiveBackCommand, NodesPresent, NodeSaidHello, StatesFound>;

// --- effects -----------------------------------------------------------------------------------

// Must be durable before any later effect of the same list is performed.
struct SaveRecord {
  JobRecord record;
};

// Node agent of the device: start a process; it says Hello, or WorkerExited comes.
struct StartWorker {
  Incarnation incarnation;
  DeviceId device;
};

// SIGKILL, which also ends a stopped process. WorkerExited follows once it is reaped.
struct KillWorker {
  Incarnation incarnation;
};

// To a worker at the address that its Hello gave.
struct SendWorker {
  Incarnation to;
  std::string address;
  protocol::HeadMessage message;
};

// Cluster scheduler: exactly these devices, no more, replaces the last one. What is held beyond is
// given back by DeviceReleased; the scheduler need not revoke it. Empty when the job is over.
struct Demand {
  DeviceSet devices;
};

// Cluster scheduler: the scale pin is lifted; the scheduler decides again.
struct DemandLifted {};

// To the cluster scheduler: the job can use this type only from now on.
struct BoundToType {
  DeviceType type;
};

struct DeviceReleased {
  DeviceId device;
};

// Cluster scheduler: an audit has found that this device computes wrongly; nobody is to be given
// it. It is released like any other when its process has ended.
struct DeviceSuspected {
  DeviceId device;
  std::string reason;
};

// The lines and evaluations after this version are void: an audit has found that they may be
// spoiled. Must be durable before a later effect is performed.
struct LedgerRewound {
  Version through = 0;
};

// To a node: which of these can it read? Answer: StatesFound, unless its link breaks.
struct FindStates {
  std::string node;
  std::vector<CheckpointRef> states;
};

// To a node: these are not wanted any more, if they are on its disk.
struct RemoveCheckpoints {
  std::string node;
  std::vector<CheckpointRef> states;
};

// To a node: of the checkpoints that this job has written to give up its devices
// (Config.suspend_prefix) in generations before `below`, only these are still wanted.
struct KeepSuspensions {
  std::string node;
  std::uint64_t below = 0;
  std::vector<std::string> paths;
};

// Cluster scheduler: the job does not leave the devices that it was called back from.
struct DevicesKept {
  std::string reason;  // empty: it does, or none were
};

// A version is in the ledger now: once for each, ascending, without gap. Must be as durable as
// SaveRecord before a later Acknowledge or Install is sent, since workers then forget the line.
struct LedgerLineAdded {
  protocol::LedgerLine line;
};

// A version has been evaluated: once for each.
struct EvaluationAdded {
  Version version = 0;
  protocol::Bytes totals;  // as in protocol::Evaluated
};

struct StateChanged {
  JobState state = JobState::kQueued;
};

// Answer to ScaleCommand, PauseCommand, ResumeCommand and CancelCommand.
struct CommandDone {
  std::uint64_t request = 0;
  Status status;
  std::string note{};  // for the client, of what was done
};

struct CheckpointTaken {
  CheckpointRef checkpoint;
  protocol::VersionDigests digests;
  std::string first_error{};  // why it is in CheckpointCommand::otherwise; empty: it is not
};

// Answer to CheckpointCommand.
struct CheckpointDone {
  std::uint64_t request = 0;
  Result<CheckpointTaken> result;
};

// For the job's log: one line for a person.
struct LogLine {
  std::string text;
};

// The job is over, every process reaped and every device released.
struct JobEnded {
  JobState state = JobState::kFinished;
  std::string error;
};

using Effect =
    std::variant<SaveRecord, StartWorker, KillWorker, SendWorker, Demand, DemandLifted, BoundToType,
                 DeviceReleased, DeviceSuspected, LedgerRewound, FindStates, RemoveCheckpoints,
                 KeepSuspensions, DevicesKept, LedgerLineAdded, EvaluationAdded, StateChanged,
                 CommandDone, CheckpointDone, LogLine, JobEnded>;
using Effects = std::vector<Effect>;

// --- views -------------------------------------------------------------------------------------

// One placement that the job went through.
struct StageReport {
  std::string placement;    // device set as text
  std::uint64_t steps = 0;  // ledger lines added under it
  Instant training{};       // time of stepping
  Instant rescale{};        // pauses before it, and within it (a lost worker): first Drained, or
                            // the loss, to Go. 0 for the start of the job
};

}  // namespace es::actors::intra_job
