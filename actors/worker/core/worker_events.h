#pragma once
// The events that go into the worker core and the effects that come out of it. Messages are in
// protocol/messages.h.
//
// The engine works on another thread. It performs the effects of the engine in the order in which
// they were issued, one at a time, and answers each with the event that is named beside it. An
// effect of an abandoned generation may be skipped or cut short; its answer is ignored. Two effects
// change the version held here, LoadVersion and ApplyUpdate. They are never cut short and are
// always answered. A WriteVersion is never cut short either.
//
// A bucket of a gradient has four forms on its way, because each place knows something else of it:
//   gpu::PartReady                     which slot of the engine contains a finished part
//   PartSummed, PartialSumMade,
//   BucketReduced                      the events: the messages below without what the core adds
//   protocol::Contrib, Reduced         the values of the core, which are also the messages; the
//                                      schema step.capnp has the same fields
//   gpu::GradientPart                  the address of a part in this process, for the additions
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/base/protocol/core/messages.h"
#include "proto/base/ids.h"

namespace es::actors::worker {

// --- effects: the engine -----------------------------------------------------------------------

// Stops local steps, reductions and evaluations of generations before this one, and drops the
// shared memory that belongs to them. If an ApplyUpdate or LoadVersion is running, the memory that
// it has mapped from peers stays readable until it has ended.
struct AbandonGenerations {
  Generation before;
};

// Loads `version`, whole and verified, into a separate image that replaces the current one only
// when it is complete. Answer: VersionLoaded; or DataUnreadable or CheckpointDamaged, if nothing
// has changed.
struct LoadVersion {
  Generation generation;
  Version version = 0;
  std::variant<protocol::FromSeed, protocol::FromCheckpoint, protocol::State> from;
  // The directory into which PullState has copied a checkpoint of another node; otherwise empty.
  std::string copy{};
  std::string decisions{};  // of the evaluations before the version; empty: the job has none
  // The buckets whose moments are loaded, ascending; nullopt: all.
  std::optional<std::vector<std::uint32_t>> held{};
};

// For the shell: fetches a checkpoint on another node's disk through the head. Answer: a PullEvent,
// unless the generation is abandoned.
struct PullState {
  Generation generation;
  protocol::FromCheckpoint from;
};

// Runs the local steps of step `step` for these ranks. They read the contexts of version `step` and
// write new ones. Answer: one PartSummed for each bucket and each part of the range
// (protocol::Contrib), as soon as it is ready.
//
// It also means that no worker reads the contributions of this worker to earlier steps any longer.
// Slower members may still read its reduced buckets of the previous step (gradient_store.h).
struct StartLocalSteps {
  Generation generation;
  Version step = 0;
  RankRange ranks;
  std::optional<VirtualRank> audited{};  // one of `ranks`: AuditDone follows for its local step
};

// Computes the local step of this rank, whichever worker owns it, and keeps nothing of it. `step`
// is the version held here. Answer: AuditDone.
struct RunAudit {
  Generation generation;
  Version step = 0;
  VirtualRank rank = 0;
};

// All of `ranks` are there: sums the parts in the order of the canonical tree, or at level D0 in
// rank order. The update computes the mean. A partial sum is made in the memory of a part of this
// worker. Answer: BucketReduced, of a partial sum PartialSumMade, or DataUnreadable.
struct ReduceBucket {
  Generation generation;
  Version step = 0;
  std::uint32_t bucket = 0;
  RankRange ranks;                       // of one node of the tree; at level D0 all
  bool is_partial = false;               // it is a part of a sum that another worker makes
  std::vector<protocol::Contrib> parts;  // by ranks, ascending, covering `ranks` exactly
};

// In a job with sharded state: no worker reads the parts of this bucket any more, because the sum
// of the bucket exists twice. So their memory may be used for something else. No answer.
struct PartsRead {
  Generation generation;
  Version step = 0;
  std::uint32_t bucket = 0;
};

// All buckets are staged: makes version step + 1. Answer: UpdateApplied, or DataUnreadable with
// nothing changed. Every bucket is therefore mapped before the first one is applied.
struct ApplyUpdate {
  Generation generation;
  Version step = 0;
  std::vector<protocol::Reduced> buckets;  // by bucket number
  // of all ranks: losses, and contexts of version step + 1
  std::vector<protocol::RankResult> results;
  bool last = false;        // version step + 1 may end the job, so the state is digested too
  std::string decisions{};  // of the evaluations up to this version; empty: the job has none
};

// In a job with sharded state: copies the sum of a bucket, so that it does not depend on its owner.
// Answer: SumHeld or DataUnreadable.
struct HoldSum {
  Generation generation;
  protocol::Reduced sum;
};

// In a job with sharded state: makes the shards of version step + 1 from those of version `step`.
// The sums are in memory of this worker; they are kept through AbandonGenerations until the next
// step begins or another version is loaded. Never cut short. Answer: ShardsUpdated.
struct UpdateShards {
  Generation generation;
  Version step = 0;
  std::vector<protocol::Reduced> sums;  // of the held buckets, ascending
  protocol::Bytes squares;              // of all buckets, in order; null if the job does not clip
  std::string decisions{};              // as in ApplyUpdate
  std::vector<std::uint32_t> shared{};  // whose new parameters others need, ascending
};

// In a job with sharded state: takes over the parameters that other workers have computed, and
// makes version step + 1 of them and of the updated shards. Never cut short. Answer: UpdateApplied,
// or DataUnreadable; then the version of this worker is still `step`.
struct CommitShards {
  Generation generation;
  Version step = 0;
  std::vector<protocol::Updated> parameters;  // of the buckets that are not held, ascending
  std::vector<protocol::RankResult> results;  // as in ApplyUpdate
  bool last = false;                          // as in ApplyUpdate
};

// In a job with sharded state: makes the whole parameters of `version` and the shards of `held`
// from what this worker has and from pieces of peers. Answer: VersionLoaded, or DataUnreadable with
// nothing changed.
struct LoadShards {
  Generation generation;
  Version version = 0;
  std::vector<std::uint32_t> held;  // afterwards, ascending
  bool from_nothing = false;        // nothing of this worker is used
  std::vector<protocol::Shards> pieces;
  std::vector<protocol::Bytes> contexts;  // by rank; empty: those of the version held here
  std::vector<std::uint32_t> losses;      // of the step that made the version; empty: not known
  bool last = false;                      // as in ApplyUpdate
  std::string decisions{};                // as in LoadVersion
};

// Only the moments of these buckets are needed from now on. No answer.
struct KeepShards {
  std::vector<std::uint32_t> buckets;  // ascending
};

// Copies parts of the version held here, or of the shards that are ahead of it, for a peer. Answer:
// ShardsExported.
struct ExportShards {
  Generation generation;
  protocol::FetchShards wanted;
};

// Describes the version held here for a peer that fetches it. Answer: VersionExported.
struct ExportVersion {
  Generation generation;
  Incarnation to;
};

// Evaluates the version held here. Answer: EvaluationDone.
struct RunEvaluation {
  Generation generation;
  Version version = 0;
};

// Writes the version held here, as protocol::WriteCheckpoint says. Answer: CheckpointFinished. If
// some moments are elsewhere, it waits for SupplyShards; until then AbandonGenerations drops it.
struct WriteVersion {
  std::uint64_t request = 0;
  std::string directory;
  bool periodic = false;
  bool make_parent = false;
};

// In a job with sharded state: computes the digest of the whole state of the version held here. It
// waits for SupplyShards as WriteVersion does. Answer: StateDigested.
struct DigestState {
  Generation generation;
  Version version = 0;
};

// The moments of `version` that are elsewhere, for all that waits for them. None: they are not to
// be had any more, and what waits for them is dropped without an answer. Answer: ShardsTaken, if
// there are any.
struct SupplyShards {
  Generation generation;
  Version version = 0;
  std::vector<protocol::Shards> pieces;
};

// The receiver has mapped what ExportShards made of this version for it. No answer.
struct DropShards {
  Incarnation of;
  Version version = 0;
};

// --- effects: the rest -------------------------------------------------------------------------

struct SendHead {
  protocol::WorkerMessage message;
};

// The shell chooses how bulk data travels (transport.h). `channel` is that of the peer.
struct SendPeer {
  Incarnation to;
  std::string address;
  std::string host_id;
  protocol::PeerMessage message;
  protocol::ChannelPoint channel{};
};

// The head has released this worker: ends the process with status 0.
struct Exit {};

// Something that the protocol excludes has happened: prints it and ends the process. The job
// continues without this worker, and no bit of the result can have been changed.
struct Abort {
  std::string reason;
};

// A message that a correct peer cannot have sent was dropped: logs and counts it.
struct ReportAnomaly {
  std::string text;
};

using Effect = std::variant<AbandonGenerations, LoadVersion, StartLocalSteps, RunAudit,
                            ReduceBucket, PartsRead, ApplyUpdate, ExportVersion, RunEvaluation,
                            WriteVersion, PullState, HoldSum, UpdateShards, CommitShards,
                            LoadShards, KeepShards, ExportShards, DigestState, SupplyShards,
                            DropShards, SendHead, SendPeer, Exit, Abort, ReportAnomaly>;
using Effects = std::vector<Effect>;

// --- events: results of the engine -------------------------------------------------------------

struct VersionLoaded {
  Version version = 0;
  // After LoadShards with losses: the ledger line of the version.
  std::optional<protocol::LedgerLine> line{};
};

// One part of the own ranks is summed for one bucket. The stamp has only the generation; the core
// adds the sender and the drain flag, which the engine does not know.
struct PartSummed {
  protocol::Contrib part;
};

// The local steps cannot go on before others have read parts that this worker has reported: there
// is no room for more gradients (PartsRead).
struct StepsHeldUp {
  Generation generation;
  Version step = 0;
};

// A sum on the way to the owner of the bucket. The core adds the sender, the results and the drain
// flag, which it has collected.
struct PartialSumMade {
  protocol::Contrib part;
};

// The core adds the same.
struct BucketReduced {
  protocol::Reduced sum;
};

// The sum is in memory of this worker. `sum` refers to it there.
struct SumHeld {
  protocol::Reduced sum;
  protocol::Bytes squares{};  // as in protocol::Complete
};

// The held shards are those of version step + 1. The core adds the sender.
struct ShardsUpdated {
  Version step = 0;
  std::vector<protocol::Updated> parameters;  // of UpdateShards::shared
};

// `shards` has no stamp and nothing of what the core adds (losses, squares, lines).
struct ShardsExported {
  Generation generation;
  protocol::FetchShards wanted;
  protocol::Shards shards;
};

// `digest` is as in protocol::Audited.
struct AuditDone {
  Generation generation;
  Version step = 0;
  VirtualRank rank = 0;
  Digest digest;
};

struct UpdateApplied {
  protocol::LedgerLine line;  // of the version that was made
};

// `state` has no stamp and no unacknowledged lines; the core adds them.
struct VersionExported {
  Generation generation;
  Incarnation to;
  protocol::State state;
};

// What SupplyShards has brought does not depend on its senders any more.
struct ShardsTaken {
  Generation generation;
  Version version = 0;
};

struct StateDigested {
  Generation generation;
  Version version = 0;
  Digest state;
};

struct EvaluationDone {
  Generation generation;
  Version version = 0;
  protocol::Bytes totals;  // as in protocol::Evaluated
};

struct CheckpointFinished {
  std::uint64_t request = 0;
  std::string path;
  Version version = 0;
  VersionDigests digests;
  std::string error;  // not empty if no checkpoint was written
  ErrorKind error_kind = ErrorKind::kFailure;
  double seconds = 0;  // time that the writer needed
};

// A LoadVersion, ReduceBucket or ApplyUpdate could not read or verify the data that `of` had
// offered, because that worker has died or left. Nothing has changed. Errors of files on this host
// are EngineFailed instead.
struct DataUnreadable {
  Generation generation;
  Incarnation of;
};

// The checkpoint of a LoadVersion is damaged or cannot be read here. Nothing has changed.
struct CheckpointDamaged {
  Generation generation;
  std::string path;
  std::string error;
  bool gone = false;  // as in protocol::CheckpointUnreadable
};

// The job cannot continue on this worker (protocol::Failed).
struct EngineFailed {
  std::string error;
  bool elsewhere = false;  // it may be able to on another one
};

using EngineEvent =
    std::variant<VersionLoaded, PartSummed, StepsHeldUp, PartialSumMade, BucketReduced, AuditDone,
                 UpdateApplied, VersionExported, SumHeld, ShardsUpdated, ShardsExported,
                 ShardsTaken, StateDigested, EvaluationDone, CheckpointFinished, DataUnreadable,
                 CheckpointDamaged, EngineFailed>;

// --- events: links to other workers -------------------------------------------------------------

// Bytes of a message of this peer have arrived; the message itself follows when it is complete.
struct BytesArrived {
  Incarnation from;
};

// The link to this peer broke. Messages that were sent over it may be lost, even if it is up again.
struct LinkLost {
  Incarnation peer;
};

// A link to this peer is being made, because there is something to send to it.
struct LinkAwaited {
  Incarnation peer;
};

// The link to this peer is there, for the first time or again.
struct LinkMade {
  Incarnation peer;
};

using LinkEvent = std::variant<BytesArrived, LinkLost, LinkAwaited, LinkMade>;

// --- events: results of a PullState -------------------------------------------------------------

// Bytes of the checkpoint have arrived.
struct PullProgress {
  Generation generation;
};

// The whole checkpoint is in the directory `copy`, which the LoadVersion that follows takes over.
struct StatePulled {
  Generation generation;
  std::string copy;
};

struct PullFailed {
  Generation generation;
  std::string error;
  bool gone = false;  // as in protocol::CheckpointUnreadable
};

using PullEvent = std::variant<PullProgress, StatePulled, PullFailed>;

}  // namespace es::actors::worker
