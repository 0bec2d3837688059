#pragma once
// This file defines the messages of the step and commit protocol as plain structs. The pure cores
// of the worker and of the job's head (IntraJobScheduler) exchange them. The schemas step.capnp and
// round.capnp carry the same fields. A shell decodes and validates a message, and then hands one of
// these structs to its core. docs/PROTOCOL.md explains the protocol; worker_core.h and
// job_core.h say which transitions the messages cause.
//
// Every message carries a Stamp. A receiver drops a message that is older than the generation it
// promised, or that comes from an incarnation it does not know. Nothing else protects a job from a
// process that was frozen and wakes up late.
//
// The structs are values and immutable once they are sent. Bulk data and contexts are shared
// between copies of a message, not copied.
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
#include "proto/base/job_record.h"
#include "proto/base/result.h"

namespace es::actors {

namespace protocol {

// The sender of a message and the generation in which it speaks. `sender` is 0 for the head.
struct Stamp {
  Generation generation;
  Incarnation sender;
  bool operator==(const Stamp&) const = default;
};

using Bytes = std::shared_ptr<const std::vector<std::byte>>;
// Bytes in GPU memory (gpu/cuda/device_pool.h).
using DeviceBytes = std::shared_ptr<const std::byte>;

// Bulk data. It takes one of these forms:
// - a reference to `bytes` bytes at `offset` of the shared-memory segment named `segment`;
// - the bytes themselves, in `inline_bytes`, if the peers share no memory (`segment` is empty);
// - a reference with `remote` set, if the data are too large for one message. The receiving shell
//   requests the bytes of the sender's segment in pieces and hands the message to its core when it
//   has all of them (worker/bulk_pull.h);
// - a transfer through the sender's channel to the receiver, if `transfer` is not 0
//   (worker/channel_book.h). The shell takes `bytes` bytes out of the channel.
//
// A segment belongs to one (job, generation, incarnation); worker_core.h states how long it may be
// read. `device` and `in_host` are used within one worker and are never sent: `device` holds the
// same bytes in the memory of the worker's GPU and keeps them unchanged while a reference exists.
// If `in_host` is false, the bytes exist only there and not in the segment.
struct Bulk {
  std::string segment;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  Bytes inline_bytes;   // null if segment is not empty
  bool remote = false;  // the segment cannot be mapped in this process
  std::uint64_t transfer = 0;
  DeviceBytes device;
  bool in_host = true;
};

// Bytes that came through a channel, in host memory or in GPU memory. Exactly one pointer is set.
struct Arrived {
  Bytes host;
  DeviceBytes device;
};

// The endpoint by which GPU channels can connect the device of a worker to other devices.
struct ChannelPoint {
  std::string kind;    // such as "nccl 2.28.9"; channels connect equal kinds only; empty: none
  std::string device;  // the physical device, which several workers may share
  bool operator==(const ChannelPoint&) const = default;
};

// What the local step of one EST produces in addition to its gradient.
struct RankResult {
  VirtualRank rank = 0;
  std::uint32_t loss_bits = 0;  // mean loss of the EST's mini-batch, bits of an IEEE fp32
  Bytes context;                // encoded next context of the EST; opaque here
};

// What a node reports about a saved state (a checkpoint of the job).
enum class Sight : std::uint8_t {
  kWhole = 0,    // the files exist and have the expected version and digests
  kGone = 1,     // looked for or read: missing, damaged, or another state
  kUnclear = 2,  // the node could not determine it
};

// The ledger line of one version. It is the same on every worker, bit by bit.
struct LedgerLine {
  Version version = 0;                   // made by step version - 1
  std::vector<std::uint32_t> loss_bits;  // by virtual rank, bits of an IEEE fp32
  Digest params;
  std::optional<Digest> state;  // present only for the last version of the job
  bool operator==(const LedgerLine&) const = default;
};

// --- worker <-> worker -------------------------------------------------------------------------

// Worker -> the member that adds it (sum_routes.h), which may be the worker itself. Carries the sum
// over a maximal node of its ranks, or a partial sum that it has made; at level D0 over all its
// ranks. The receiver counts a contribution once for each (sender, bucket, ranks) and ignores a
// repetition. Parts that overlap are a program error.
struct Contrib {
  Stamp stamp;
  Version step = 0;  // the step from version `step` to version `step` + 1
  std::uint32_t bucket = 0;
  RankRange ranks;
  Bulk data;
  std::vector<RankResult> results;  // bucket 0: results of these ranks, ascending; else empty
  bool drain = false;               // bucket 0: a member asks to stop after this step
};

// Owner -> members: the finished bucket. All members that use it see the same drain flag.
struct Reduced {
  Stamp stamp;
  Version step = 0;
  std::uint32_t bucket = 0;
  Bulk data;
  std::vector<RankResult> results;  // bucket 0: results of all ranks, ascending; else empty
  bool drain = false;               // bucket 0: OR of the contributions' flags
};

// Buddy -> members, in a job with sharded state (Holders), where the owner sends Reduced only to
// the buddy of the bucket: the buddy has copied the sum. Owner and buddy both hold it, so the loss
// of one of them loses nothing.
struct Complete {
  Stamp stamp;
  Version step = 0;
  std::uint32_t bucket = 0;
  std::vector<RankResult> results;  // as in Reduced
  bool drain = false;               // as in Reduced
  // The sum of the squares of the summed gradient of each parameter of the bucket, fp32 each, in
  // table order. Null if the job does not clip. Opaque here.
  Bytes squares;
};

// Owner -> members that do not hold the bucket: its parameters of version `step` + 1. In a job with
// sharded state only owner and buddy compute them.
struct Updated {
  Stamp stamp;
  Version step = 0;
  std::uint32_t bucket = 0;
  Bulk data;
};

// Sealed worker -> the source that Install named: a request for this version. The source may not
// have received its own Install yet, so the message contains the address for the answer.
struct Fetch {
  Stamp stamp;
  Version version = 0;
  std::string address;
  std::string host_id;
};

// The answer to Fetch: a whole version. The receiver uses it only if the digests match.
struct State {
  Stamp stamp;
  Version version = 0;
  VersionDigests digests;
  Bulk parameters;
  std::vector<Bulk> moments;    // arrays of optimizer state, in the optimizer's order
  std::vector<Bytes> contexts;  // by virtual rank, max_p entries
  // Ledger lines up to `version` that the head has not acknowledged, ascending. So every worker
  // that holds a version can also report its ledger lines to the head, even if all workers that
  // computed the version are gone.
  std::vector<LedgerLine> unacknowledged;
};

// A request for parts of a version, in a job with sharded state. The receiver may not have reached
// the version yet; it answers as soon as it has.
struct FetchShards {
  Stamp stamp;
  Version version = 0;
  std::vector<std::uint32_t> parameters;  // of these buckets, ascending
  std::vector<std::uint32_t> moments;     // of these buckets, ascending
  bool rest = false;    // what belongs to no bucket: contexts, losses, squares, ledger lines
  bool frozen = false;  // parameters that are not trained
  std::string address;
  std::string host_id;
};

// The answer to FetchShards. `data` has the wanted parameters by bucket, then the frozen
// parameters, then the wanted moments by bucket and array (actors/worker/state/version_io.h); the
// receiver uses it only if `digest` is that of all its bytes. No moments, although some were
// wanted: the sender has gone on to the next version.
struct Shards {
  Stamp stamp;
  Version version = 0;
  std::vector<std::uint32_t> parameters;
  std::vector<std::uint32_t> moments;
  bool rest = false;
  bool frozen = false;
  Bulk data;
  Digest digest;
  // With `rest`. `losses` are those of the step that made the version, bits of an IEEE fp32 by
  // virtual rank, and `squares` the sums of squares of that step, bucket after bucket. Both are
  // empty if the sender has the version from a saved state or the seed.
  std::vector<Bytes> contexts;  // by virtual rank
  std::vector<std::uint32_t> losses;
  Bytes squares;
  bool drain = false;                      // as in Complete, of that step
  std::vector<LedgerLine> unacknowledged;  // as in State
};

// --- worker -> head ----------------------------------------------------------------------------

// The process is running and warm: its device, graph and memory plan are ready. The generation of
// the stamp is 0. A worker sends Hello again whenever its link to the head has been restored.
struct Hello {
  Stamp stamp;
  DeviceId device;
  std::string address;  // where other workers reach this one
  std::string host_id;  // equal for two workers if and only if they can share memory segments
  ChannelPoint channel{};
  std::string kernels{};  // the text of its kernel record (actors/worker/state/kernel_record.h)
};

// The sender is sealed at this version; nullopt if it holds no version.
struct Report {
  Stamp stamp;
  std::optional<Version> version;
  // In a job with sharded state: the buckets whose moments the sender holds, ascending, and those
  // of them whose sum of step `version` it holds. If `ahead` is set, its shards are already those
  // of `version` + 1, and all parameters of that version can be made from shards.
  std::vector<std::uint32_t> held{};
  std::vector<std::uint32_t> summed{};
  bool ahead = false;
};

// The sender holds the whole target version and has verified its digests.
struct Ready {
  Stamp stamp;
  Version version = 0;
};

// The sender has paused at this version, because of the drain flag or a planned stop.
struct Drained {
  Stamp stamp;
  Version version = 0;
};

// The sender has committed a version. A worker sends this message at each commit, and again after
// Go for every version that the head has not acknowledged.
struct Committed {
  Stamp stamp;
  LedgerLine line;
};

// The owner of rank 0 has evaluated this version on the evaluation samples.
struct Evaluated {
  Stamp stamp;
  Version version = 0;
  Bytes totals;  // encoded input of the metrics; opaque here
};

// The sender made no progress within the time limit of the step. It waits for data of the worker
// `awaited`.
struct Suspect {
  Stamp stamp;
  Version step = 0;
  Incarnation awaited;
};

// The answer to WriteCheckpoint: the place of the checkpoint, or the reason for which there is none
// (`error` is not empty).
struct CheckpointWritten {
  Stamp stamp;
  std::uint64_t request = 0;
  std::string path;
  Version version = 0;
  VersionDigests digests;
  std::string error;
  ErrorKind error_kind = ErrorKind::kFailure;  // kind of `error`
  double seconds = 0;                          // time that the writer needed
};

// The saved state that Install named as the source is damaged or cannot be read.
struct CheckpointUnreadable {
  Stamp stamp;
  std::string path;
  std::string error;  // one line for a user: file and block
  // True: it was read where it lies and is damaged or missing; false: it may be whole.
  bool gone = false;
};

// The result of the local step of one rank on this worker. In an audited step (audit.h) the owner
// and the auditor of the rank send it without a request. A member also sends it in answer to Audit.
struct Audited {
  Stamp stamp;
  Version step = 0;
  VirtualRank rank = 0;
  Digest digest;  // digest of the whole gradient, bucket by bucket, and of the EST's next context
};

// The job cannot continue on this worker. If `elsewhere` is false, it cannot on any other one, for
// example because of a bad data set. Otherwise something is missing here, such as memory.
struct Failed {
  Stamp stamp;
  std::string error;  // one line for a user
  bool elsewhere = false;
};

// --- head -> worker ----------------------------------------------------------------------------

// A request to promise this generation, to stop, and to report.
struct Prepare {
  Stamp stamp;
};

// A worker of a placement. The owner of bucket b is members[b mod n], or in a job with sharded
// state the one that Install names.
struct Member {
  Incarnation incarnation;
  RankRange ranks;
  std::string address;
  std::string host_id;
  ChannelPoint channel{};
  bool operator==(const Member&) const = default;
};

// Where a worker that does not hold a version obtains it.
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
  // Not empty: the state lies on the disk of that node, and the receiver cannot see it.
  std::string node{};
  bool operator==(const FromCheckpoint&) const = default;
};
using Source = std::variant<FromSeed, FromPeer, FromCheckpoint>;

// The two members that hold the moments of a bucket, in a job with sharded state: both update the
// bucket from the same sum. They are the same one only if there is no other member.
struct Holders {
  Incarnation owner;
  Incarnation buddy;
  bool operator==(const Holders&) const = default;
};

// The new placement, with the ranks of the receiver, and the target version that it must obtain.
// Workers without ranks receive it too, because they stay available as sources.
struct Install {
  Stamp stamp;
  Version target = 0;
  // Ascending, contiguous ranks over [0, max_p); the same list for all.
  std::vector<Member> members;
  Source source;
  std::uint32_t bucket_count = 0;
  Version last_version = 0;          // number of steps of the job
  std::optional<Version> pause_at;   // planned stop: pause at this version and send Drained
  Version evaluated_through = 0;     // the head knows all evaluations up to this version
  Version acknowledged_through = 0;  // the head has all ledger lines up to this version
  // The decisions of the evaluations before the target (decisions.h); empty: the job has none.
  std::string decisions{};
  // By bucket; both are empty if every member holds all moments. `shard_sources` are workers that
  // hold the shard of the target, or the sum by which they make it; they are empty if `source` is
  // no peer. `source`, if it is a peer, holds what belongs to no bucket.
  std::vector<Holders> holders{};
  std::vector<FromPeer> shard_sources{};
};

// All members are ready; training starts.
struct Go {
  Stamp stamp;
};

// The receiver is no longer needed and must exit.
struct Release {
  Stamp stamp;
};

// A request to stop after the next common step.
struct Drain {
  Stamp stamp;
};

// The head has stored the ledger lines up to this version and the evaluations of earlier versions.
// The receiver need not keep them any longer.
struct Acknowledge {
  Stamp stamp;
  Version through = 0;
};

// A request to write a version into a new directory: the version of the next commit, or the current
// one if the worker does not step. A worker drops the request at Prepare; the head then repeats it,
// perhaps to another member. A relative directory lies in the rescue directory of the node.
struct WriteCheckpoint {
  Stamp stamp;
  std::uint64_t request = 0;
  // A periodic one names its parent, which is created; its own name is step-VERSION.
  std::string directory;
  bool periodic = false;
  Version at = 0;            // the oldest version that may be written
  bool make_parent = false;  // create the parent of `directory` if it does not exist
};

// The results of an audited step differ: compute the local step of this rank once more.
struct Audit {
  Stamp stamp;
  Version step = 0;
  VirtualRank rank = 0;
};

// The results of this audited step agree: the update may begin.
struct AuditPassed {
  Stamp stamp;
  Version step = 0;
};

// The evaluation of version `step` is stored and has decided: the update of this step may begin
// with these decisions (decisions.h). Sent to the members after Go, ascending, for all such
// evaluations from the target on. A job that has ended with `step` sends none.
struct Decided {
  Stamp stamp;
  Version step = 0;
  std::string decisions;
};

using PeerMessage =
    std::variant<Contrib, Reduced, Fetch, State, Complete, Updated, FetchShards, Shards>;
using WorkerMessage = std::variant<Hello, Report, Ready, Drained, Committed, Evaluated, Suspect,
                                   CheckpointWritten, CheckpointUnreadable, Audited, Failed>;
using HeadMessage = std::variant<Prepare, Install, Go, Release, Drain, Acknowledge, WriteCheckpoint,
                                 Audit, AuditPassed, Decided>;

inline const Stamp& stamp_of(const auto& message) {
  return std::visit([](const auto& m) -> const Stamp& { return m.stamp; }, message);
}

}  // namespace protocol
}  // namespace es::actors
