#pragma once
// The events that go into the head core of one job and the effects that come out. The messages
// between head and workers are in protocol/messages.h.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/base/protocol/core/decisions.h"
#include "actors/base/protocol/core/instant.h"
#include "actors/base/protocol/core/job_cluster.h"
#include "actors/base/protocol/core/messages.h"
#include "actors/base/protocol/core/process_exit.h"
#include "proto/base/device.h"
#include "proto/base/digest.h"
#include "proto/base/ids.h"
#include "proto/base/job_record.h"
#include "proto/base/job_spec.h"

namespace es::actors::intra_job {

struct Config {
  JobSpec spec;
  Version last_version = 0;        // number of global steps of the job, > 0
  std::uint32_t bucket_count = 1;  // buckets of the model's flat parameters
  // The floats of each bucket in a job with sharded state; empty: every member holds all moments.
  std::vector<std::uint64_t> shards{};
  // Where the run begins: FromSeed at version 0, or FromCheckpoint at the version of that
  // checkpoint. The stages of the spec count their steps from here.
  protocol::Source start = protocol::FromSeed{};
  Version start_version = 0;
  VersionDigests start_digests{};                    // digests of the checkpoint in `start`
  protocol::Decisions start_decisions{};             // of the evaluations before it
  std::string checkpoint_directory;                  // parent of the job's own checkpoints
  Version acknowledge_every = 64;                    // ledger lines between two Acknowledge
  Instant drain_timeout = std::chrono::seconds(30);  // after this time a round begins without drain
  // The same for members that have to leave while one of them evaluates, and for those that have to
  // leave because their devices are about to end.
  Instant evaluation_timeout = std::chrono::seconds(1);
  Instant urgent_drain_timeout = std::chrono::seconds(10);
  // Time from Release to exit, then the worker is killed.
  Instant exit_timeout = std::chrono::seconds(5);
  // Time from Prepare to Report, then the worker is evicted.
  Instant report_timeout = std::chrono::seconds(30);
  // Time from the start of a process to its Hello.
  Instant start_timeout = std::chrono::minutes(10);
  // true: workers report only some versions. Simulations report the last one and those at which a
  // placement stops.
  bool sparse_ledger = false;
  // Prefix of the checkpoints that the job writes to give up all its devices; the generation is
  // appended. It is a path on the disk of the node that writes. A node that cannot write there uses
  // the same name in its rescue directory. Empty: such checkpoints are never removed.
  std::string suspend_prefix;
  // The date at which the clock of the core was 0; 0: not known.
  std::uint64_t zero_unix_ms = 0;
};

// Decisions that the core leaves to its owner. Both are pure or return a fresh value.
struct Services {
  // Returns a number that is unique in the cluster, never used before, and > 0.
  std::function<Incarnation()> next_incarnation;
  // Returns one range for each device: contiguous, not empty, together [0, max_p). The devices are
  // ordered by the incarnations of their workers. REQUIRES: 1 <= devices <= max_p.
  std::function<std::vector<RankRange>(std::uint32_t max_p, const std::vector<DeviceId>& devices)>
      assign_ranks;
  // Returns the values of metrics of the totals of an evaluation (protocol::Evaluated); NaN for one
  // that they do not have. Needed by a job that decides by evaluations.
  std::function<protocol::MetricValue(const protocol::Bytes& totals)> metrics{};
};

// --- journal -----------------------------------------------------------------------------------

// The contents of the run ledger on disk, for a restarted head. `lines` ascend without gap from the
// version after Config.start_version.
struct LedgerHistory {
  std::vector<protocol::LedgerLine> lines;
  std::vector<std::pair<Version, protocol::Bytes>> evaluations{};  // totals; ascending
  // The newest digest of a whole state. It belongs to the line of the job's last version, if there
  // is one; otherwise it may be that of a version which was rewound.
  std::optional<Digest> final_state{};
};

// --- events ------------------------------------------------------------------------------------

// From the cluster scheduler.
using protocol::Allocation;
using protocol::DemandRefused;

// From a node agent: the process was reaped and its device is free.
struct WorkerExited {
  Incarnation incarnation;
  std::string description;  // for users: status or signal, and the last output of the process
  bool with_node = false;   // the node was lost or restarted, so the process is not to blame
  EndCause cause = EndCause::kKilled;
  std::string way{};  // of two ends of the same kind with cause kItself, equal
};

// The process is silent or cannot be reached. It may still run; the core evicts it.
struct WorkerLost {
  Incarnation incarnation;
  std::string reason;
};

// Use exactly these devices; nullopt gives the choice back to the cluster scheduler.
struct ScaleCommand {
  std::uint64_t request = 0;
  std::optional<DeviceSet> devices;
};

struct CheckpointCommand {
  std::uint64_t request = 0;
  std::string directory;  // must not exist
  // Write the last version of the job: the one at its end, or the one at which it is cancelled. The
  // cancellation waits for this checkpoint.
  bool at_end = false;
  std::string otherwise{};  // directory to use if `directory` cannot be written; empty: none
};

// Write a checkpoint, end all workers, give back all devices, and wait for ResumeCommand.
struct PauseCommand {
  std::uint64_t request = 0;
};

struct ResumeCommand {
  std::uint64_t request = 0;
  // Give up the saved states that no node can read now. Also valid for a job that is not paused but
  // waits for one of them.
  bool accept_loss = false;
};

// The most that the job may spend. If it is paused because its budget is used up, it continues.
struct BudgetCommand {
  std::uint64_t request = 0;
  double budget = 0;  // >= 0; 0: no limit
};

// All nodes that are connected, including those that are about to end. The jobs of a head share the
// names, because there may be thousands of nodes and of jobs.
using NodeNames = std::shared_ptr<const std::set<std::string>>;
struct NodesPresent {
  explicit NodesPresent(NodeNames names) : nodes(std::move(names)) {}  // REQUIRES: not null
  explicit NodesPresent(std::set<std::string> names)
      : nodes(std::make_shared<const std::set<std::string>>(std::move(names))) {}
  NodeNames nodes;
};

// A node has said hello, perhaps again after its daemon or its link was away. Messages to it or
// from it may have been lost.
struct NodeSaidHello {
  std::string node;
};

// The answer to FindStates.
struct StateFound {
  CheckpointRef state;  // identified by path, version and digests
  protocol::Sight sight = protocol::Sight::kUnclear;
  std::string error;  // why it is not whole
};
struct StatesFound {
  std::string node;
  std::vector<StateFound> states;
};

struct CancelCommand {
  std::uint64_t request = 0;
};

// Other ranks on the same devices fit their measured speeds better (scheduler/plans/rebalance.h).
struct RebalanceCommand {};

// The job continues without these devices and gives them back, because it is at least as fast
// without them.
struct GiveBackCommand {
  std::vector<DeviceId> devices;
};

using Event =
    std::variant<Allocation, DemandRefused, WorkerExited, WorkerLost, ScaleCommand,
                 CheckpointCommand, PauseCommand, ResumeCommand, BudgetCommand, CancelCommand,
                 RebalanceCommand, GiveBackCommand, NodesPresent, NodeSaidHello, StatesFound>;

// --- effects -----------------------------------------------------------------------------------

// Must be durable before any later effect is performed.
struct SaveRecord {
  JobRecord record;
};

// To the node agent of the device: start a process. Its Hello or its WorkerExited follows.
struct StartWorker {
  Incarnation incarnation;
  DeviceId device;
};

// Sends SIGKILL, which also ends a stopped process. WorkerExited follows when it is reaped.
struct KillWorker {
  Incarnation incarnation;
};

// To a worker, at the address of its Hello.
struct SendWorker {
  Incarnation to;
  std::string address;
  // Never null. The receivers of one message share it, because a list of members is long.
  std::shared_ptr<const protocol::HeadMessage> message;
};

// To the cluster scheduler: the job wants exactly the devices in `exact`; empty when the job is
// over. The demands without `exact` are those of the planner (job_planner.h).
using protocol::Demand;

// The exact demand is lifted, and the planner makes the demands again.
struct DemandLifted {};

// To the cluster scheduler.
using protocol::BoundToType;
using protocol::DeviceFailed;
using protocol::DeviceReleased;
using protocol::DevicesKept;
using protocol::DeviceSuspected;
using protocol::DevicesWork;

// Ledger lines and evaluations after this version are void, because an audit found that they may be
// spoiled. Must be durable before any later effect is performed.
struct LedgerRewound {
  Version through = 0;
};

// To a node: which of these states can it read? StatesFound answers, unless the link breaks.
struct FindStates {
  std::string node;
  std::vector<CheckpointRef> states;
};

// To a node: remove these states if they are on its disk.
struct RemoveCheckpoints {
  std::string node;
  std::vector<CheckpointRef> states;
};

// To a node: remove the checkpoints that this job wrote to give up its devices
// (Config.suspend_prefix) in generations before `below`, except for `paths`.
struct KeepSuspensions {
  std::string node;
  std::uint64_t below = 0;
  std::vector<std::string> paths;
};

// A version was added to the ledger. This effect comes once for each version, ascending and without
// gap. The line must be as durable as a SaveRecord before a later Acknowledge or Install is sent,
// because workers then forget it.
struct LedgerLineAdded {
  protocol::LedgerLine line;
};

// A version was evaluated. This effect comes once for each evaluation.
struct EvaluationAdded {
  Version version = 0;
  protocol::Bytes totals;  // see protocol::Evaluated
};

struct StateChanged {
  JobState state = JobState::kQueued;
};

// The answer to ScaleCommand, PauseCommand, ResumeCommand, BudgetCommand and CancelCommand.
struct CommandDone {
  std::uint64_t request = 0;
  Status status;
  std::string note{};  // text for the client about what was done
};

struct CheckpointTaken {
  CheckpointRef checkpoint;
  VersionDigests digests;
  std::string first_error{};  // why the checkpoint is in CheckpointCommand::otherwise; empty: it is
                              // in `directory`
};

// The answer to CheckpointCommand.
struct CheckpointDone {
  std::uint64_t request = 0;
  Result<CheckpointTaken> result;
};

// One line for the job's log.
struct LogLine {
  std::string text;
  bool is_warning = false;  // something is wrong, and the job continues or waits
};

// The job is over: every process was reaped and every device released. The cluster scheduler
// receives protocol::JobEnded.
struct JobEnded {
  JobState state = JobState::kFinished;
  std::string error;
};

using Effect =
    std::variant<SaveRecord, StartWorker, KillWorker, SendWorker, Demand, DemandLifted, BoundToType,
                 DeviceReleased, DeviceFailed, DevicesWork, DeviceSuspected, LedgerRewound,
                 FindStates, RemoveCheckpoints, KeepSuspensions, DevicesKept, LedgerLineAdded,
                 EvaluationAdded, StateChanged, CommandDone, CheckpointDone, LogLine, JobEnded>;
using Effects = std::vector<Effect>;

// --- views -------------------------------------------------------------------------------------

// Why a job paused. If a pause has several causes, the last of them in this order counts.
enum class PauseCause {
  kChange,      // a planned change of its devices, or of the ranks on them
  kLink,        // two of its workers could not reach each other
  kWorkerLost,  // a worker was lost
  kAudit,       // an audit found a device that computes wrongly
  kSuspended,   // it gave up all devices, because they were called back or its user paused it
};
inline constexpr std::size_t kPauseCauses = 5;

// The name of a cause in client.capnp and in metrics.
inline const char* cause_name(PauseCause cause) {
  switch (cause) {
    case PauseCause::kChange:
      return "change";
    case PauseCause::kLink:
      return "link";
    case PauseCause::kWorkerLost:
      return "worker_lost";
    case PauseCause::kAudit:
      return "audit";
    case PauseCause::kSuspended:
      return "suspended";
  }
  return "";
}

// Pauses of one cause that have ended.
struct PauseReport {
  std::uint64_t count = 0;
  Instant duration{};
};

// The checkpoints of a job since this head has it.
struct CheckpointCounts {
  std::uint64_t written = 0;
  double seconds = 0;  // time that their writers needed
  std::uint64_t failed = 0;
};

// The time between two pauses.
struct SpanReport {
  Instant begin{};                         // since this head has first seen the job train
  Instant training{};                      // up to the next pause, or up to now
  Instant pause{};                         // before it
  PauseCause cause = PauseCause::kChange;  // of that pause
  Version first = 0;                       // the version with which it began
  std::uint64_t steps = 0;
  std::vector<std::string> devices;  // of the members, by rank
};

// The number of steps that this head has seen up to a time.
struct ProgressPoint {
  Instant at{};  // since this head has first seen the job train
  std::uint64_t steps = 0;
};

// A placement that the job went through.
struct StageReport {
  std::string placement;    // device set as text
  std::uint64_t steps = 0;  // ledger lines added under this placement
  Instant training{};       // time spent stepping
  Instant rescale{};  // pauses before this placement and within it (lost workers), from the first
                      // Drained or the loss to Go; 0 for the start of the job
};

}  // namespace es::actors::intra_job
