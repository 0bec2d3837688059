#pragma once
// The messages of the step and commit protocol as plain structs: what the pure cores of the worker
// and of the job's head (IntraJobScheduler) exchange. The schemas step.capnp and round.capnp carry
// the same fields; a shell decodes and validates, then hands one of these to its core.
//
// Every message carries a Stamp. A receiver drops what is older than the generation it promised and
// what comes from an incarnation it does not know; nothing else protects a job from a process that
// wakes up late. Which transitions the messages cause: worker_core.h and intra_job_core.h.
//
// Values only, immutable once sent: bulk data and contexts are shared, not copied.
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/digest.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"

namespace es::actors {

// One device of the cluster: (node, type, index) is unique.
struct DeviceId {
  std::string node;
  DeviceType type;
  std::uint32_t index = 0;  // among the devices of this type on this node
  auto operator<=>(const DeviceId&) const = default;
  // "NODE/TYPE:INDEX", for people.
  std::string text() const { return node + "/" + type.name + ":" + std::to_string(index); }
};

namespace protocol {

// Who says it, under which placement. `sender` is 0 when the head is the sender.
struct Stamp {
  Generation generation;
  Incarnation sender;
  bool operator==(const Stamp&) const = default;
};

using Bytes = std::shared_ptr<const std::vector<std::byte>>;
using DeviceBytes = std::shared_ptr<const std::byte>;  // in device memory (gpu/cuda/device_pool.h)

// Bulk data by reference: `bytes` bytes at `offset` of the shared-memory segment named `segment`,
// or, when the peer shares no memory with us (segment empty), the bytes themselves. `remote`: too
// much for one message; a shell asks the sender for the bytes of its segment in pieces, and hands
// the message to its core when it has them (bulk_pull.h).
// A segment belongs to one (job, generation, incarnation); who may still read it: worker_core.h.
// `transfer`: not 0 for bytes that come through the sender's channel to the receiver
// (worker/channel_book.h), which are as many as `bytes` says; a shell takes them out of it.
// `device`, `in_host`: within a worker only, never sent. The bytes are in the memory of its GPU
// too, where they stay as they are while somebody holds them; or there alone, not in the segment.
struct Bulk {
  std::string segment;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  Bytes inline_bytes;   // null when segment is not empty
  bool remote = false;  // the segment cannot be mapped here
  std::uint64_t transfer = 0;
  DeviceBytes device;
  bool in_host = true;
};

// Bytes that came by a channel: in host memory, or in that of the GPU. One of the two is set.
struct Arrived {
  Bytes host;
  DeviceBytes device;
};

// What a worker's device can be joined to others by, beside host memory.
struct ChannelPoint {
  std::string kind;    // "nccl 2.28.9"; workers of equal kinds can be joined; empty: none
  std::string device;  // the physical device, which several workers may share
  bool operator==(const ChannelPoint&) const = default;
};

// Whether a node of the canonical gradient tree over [0, max_p) covers exactly these ranks: they
// begin at a multiple of a power of two and are as many, or less only where max_p cuts them off.
inline bool is_tree_range(RankRange ranks, std::uint32_t max_p) {
  if (ranks.begin >= ranks.end || ranks.end > max_p) return false;
  const std::uint64_t size = std::bit_ceil(std::uint64_t{ranks.size()});
  return ranks.begin % size == 0 && (ranks.size() == size || ranks.end == max_p);
}

// What one EST's local step leaves beside its gradient.
struct RankResult {
  VirtualRank rank = 0;
  std::uint32_t loss_bits = 0;  // mean loss of the EST's mini-batch, bits of an IEEE fp32
  Bytes context;                // the EST's next context, encoded; opaque here
};

// Digests of one version. `state` covers optimizer state and all EST contexts.
struct VersionDigests {
  Digest params;
  Digest state;
  bool operator==(const VersionDigests&) const = default;
};

// What a node sees of a saved state (a checkpoint of the job).
enum class Sight : std::uint8_t {
  kWhole = 0,    // it is there, of that version and with those digests
  kGone = 1,     // was looked for, or read: not there, damaged, or another one
  kUnclear = 2,  // the node could not tell
};

// What the ledger says about one version. The same on every worker, bit by bit.
struct LedgerLine {
  Version version = 0;                   // made by step version - 1
  std::vector<std::uint32_t> loss_bits;  // by virtual rank, bits of an IEEE fp32
  Digest params;
  std::optional<Digest> state;  // at the job's last version only
  bool operator==(const LedgerLine&) const = default;
};

// --- worker <-> worker -------------------------------------------------------------------------

// Worker -> owner of the bucket (maybe itself): the sum over one part of the sender's ranks, a
// maximal node of the canonical tree, or at level D0 all of them. Counted once per (sender, bucket,
// ranks); the same again is ignored; overlap is a bug.
struct Contrib {
  Stamp stamp;
  Version step = 0;  // the version whose step this is
  std::uint32_t bucket = 0;
  RankRange ranks;
  Bulk data;
  std::vector<RankResult> results;  // bucket 0: of these ranks, ascending; else empty
  bool drain = false;               // bucket 0: the sender wants to stop at the boundary
};

// Owner -> members: the finished bucket. All members that use it see the same drain flag.
struct Reduced {
  Stamp stamp;
  Version step = 0;
  std::uint32_t bucket = 0;
  Bulk data;
  std::vector<RankResult> results;  // bucket 0: of all ranks, ascending; else empty
  bool drain = false;               // bucket 0: OR of the contributions' flags
};

// Sealed worker -> the source that Install named: send me this version. The source may not have its
// own Install yet, so the message says where the answer goes.
struct Fetch {
  Stamp stamp;
  Version version = 0;
  std::string address;
  std::string host_id;
};

// Answer to Fetch: a whole version. The receiver verifies the digests before it counts.
struct State {
  Stamp stamp;
  Version version = 0;
  VersionDigests digests;
  Bulk parameters;
  std::vector<Bulk> moments;    // of the optimizer's state, in its order
  std::vector<Bytes> contexts;  // by virtual rank, max_p of them
  // What the head has not acknowledged, ascending, up to `version`: whoever holds a version can
  // also tell the head how it came to be, even when all that made it are gone.
  std::vector<LedgerLine> unacknowledged;
};

// --- worker -> head ----------------------------------------------------------------------------

// The process is up and warm: device, graph, memory plan. Its generation is 0. Repeated whenever
// the link to the head comes up again.
struct Hello {
  Stamp stamp;
  DeviceId device;
  std::string address;  // where peers reach it
  std::string host_id;  // equal for two workers exactly when they can share memory segments
  ChannelPoint channel{};
};

// I am sealed at this version (none: I hold no state).
struct Report {
  Stamp stamp;
  std::optional<Version> version;
};

// I hold the target completely, digests checked.
struct Ready {
  Stamp stamp;
  Version version = 0;
};

// I have paused at this version: the drain flag or the planned stop was reached.
struct Drained {
  Stamp stamp;
  Version version = 0;
};

// One version came to be here. Sent at each commit, and again after Go for every version that the
// head has not acknowledged.
struct Committed {
  Stamp stamp;
  LedgerLine line;
};

// The owner of rank 0 has evaluated this version on the evaluation set.
struct Evaluated {
  Stamp stamp;
  Version version = 0;
  Bytes totals;  // what the metrics are computed from, encoded; opaque here
};

// No progress within the step's deadline: what this worker waits for is to come from `awaited`.
struct Suspect {
  Stamp stamp;
  Version step = 0;
  Incarnation awaited;
};

// Answer to WriteCheckpoint: where it lies, or why there is none (error not empty).
struct CheckpointWritten {
  Stamp stamp;
  std::uint64_t request = 0;
  std::string path;
  Version version = 0;
  VersionDigests digests;
  std::string error;
  ErrorKind error_kind = ErrorKind::kFailure;  // of the error
};

// The checkpoint that Install named as the source is damaged, or cannot be read.
struct CheckpointUnreadable {
  Stamp stamp;
  std::string path;
  std::string error;  // one line for a person: file and block
  bool gone = false;  // read where it lies, and damaged or not there; else it may be whole
};

// What the local step of one rank gave here: said unasked by the rank's owner and its auditor in an
// audited step (audit.h), and after Audit.
struct Audited {
  Stamp stamp;
  Version step = 0;
  VirtualRank rank = 0;
  Digest digest;  // of the whole gradient, bucket by bucket, and of the EST's next context
};

// The job itself cannot go on, on whatever worker: a bad data set, a loss that is not finite.
struct Failed {
  Stamp stamp;
  std::string error;  // one line for a person
};

// --- head -> worker ----------------------------------------------------------------------------

// Promise this generation, stop, report.
struct Prepare {
  Stamp stamp;
};

// One worker of a placement. Owner of bucket b: members[b mod n].
struct Member {
  Incarnation incarnation;
  RankRange ranks;
  std::string address;
  std::string host_id;
  ChannelPoint channel{};
  bool operator==(const Member&) const = default;
};

// Where a version comes from when a worker does not hold it.
struct FromSeed {  // version 0, a pure function of the job spec
  bool operator==(const FromSeed&) const = default;
};
struct FromPeer {  // a sealed worker that holds it, with or without ranks
  Incarnation incarnation;
  std::string address;
  std::string host_id;
  bool operator==(const FromPeer&) const = default;
};
struct FromCheckpoint {
  std::string path;
  std::string node{};  // not empty: on that node's disk, which this worker does not see
  bool operator==(const FromCheckpoint&) const = default;
};
using Source = std::variant<FromSeed, FromPeer, FromCheckpoint>;

// Your ranks; get to the target. Also sent to workers without ranks: they stand by as sources.
struct Install {
  Stamp stamp;
  Version target = 0;
  std::vector<Member> members;  // ascending, gapless ranks over [0, max_p); the same for all
  Source source;
  std::uint32_t bucket_count = 0;
  Version last_version = 0;          // total steps of the job
  std::optional<Version> pause_at;   // planned stop: pause and report Drained at this version
  Version evaluated_through = 0;     // all evaluations up to this version are known to the head
  Version acknowledged_through = 0;  // ledger lines up to this version are known to the head
};

// All members are ready: start.
struct Go {
  Stamp stamp;
};

// You are no longer needed: exit.
struct Release {
  Stamp stamp;
};

// Stop at the next common boundary.
struct Drain {
  Stamp stamp;
};

// The head has the ledger up to this version, and the evaluations of versions before it: these need
// not be kept any longer.
struct Acknowledge {
  Stamp stamp;
  Version through = 0;
};

// Write the version that you hold at your next commit boundary (or now, when you do not step) into
// this new directory. Forgotten at Prepare: the head asks again, maybe another member.
struct WriteCheckpoint {
  Stamp stamp;
  std::uint64_t request = 0;
  std::string directory;  // of a periodic one: its parent, which is made; its name is step-VERSION
  bool periodic = false;
  Version at = 0;  // not before this version
  // Of the same series, once the new one is verified on the disk.
  std::vector<std::string> remove{};
  bool make_parent = false;  // of `directory`, when it is not there
};

// Opinions about an audited step differ: compute the local step of this rank once more.
struct Audit {
  Stamp stamp;
  Version step = 0;
  VirtualRank rank = 0;
};

// The opinions about this audited step agree: its update may begin.
struct AuditPassed {
  Stamp stamp;
  Version step = 0;
};

using PeerMessage = std::variant<Contrib, Reduced, Fetch, State>;
using WorkerMessage = std::variant<Hello, Report, Ready, Drained, Committed, Evaluated, Suspect,
                                   CheckpointWritten, CheckpointUnreadable, Audited, Failed>;
using HeadMessage = std::variant<Prepare, Install, Go, Release, Drain, Acknowledge, WriteCheckpoint,
                                 Audit, AuditPassed>;

inline const Stamp& stamp_of(const auto& message) {
  return std::visit([](const auto& m) -> const Stamp& { return m.stamp; }, message);
}

}  // namespace protocol
}  // namespace es::actors
