#pragma once
// What goes into the worker core and what comes out of it. Messages are in protocol/messages.h.
//
// The engine works on another thread. It performs the effects of the engine in the order in which
// they were issued, one at a time, and answers each with the event named beside it. An effect whose
// generation has been abandoned may be skipped or cut short: its answer is ignored. The two that
// change the version held here (LoadVersion, ApplyUpdate) are never cut short and always answered;
// neither is a WriteVersion.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/protocol/messages.h"
#include "proto/base/ids.h"

namespace es::actors::worker {

// --- effects: the engine -----------------------------------------------------------------------

// Stop local steps, reductions and evaluations of generations before this one, and drop the shared
// memory that belongs to them. What this worker mapped from peers for an ApplyUpdate or
// LoadVersion that runs stays readable until that has ended.
struct AbandonGenerations {
  Generation before;
};

// Come to hold `version`, whole and verified, in an image of its own that replaces the current one
// only when it is complete. Answer: VersionLoaded; or DataUnreadable, CheckpointDamaged, with
// nothing changed.
struct LoadVersion {
  Generation generation;
  Version version = 0;
  std::variant<protocol::FromSeed, protocol::FromCheckpoint, protocol::State> from;
  // Of a checkpoint on another node's disk: where PullState has put its bytes.
  std::string copy{};
};

// For the shell: bring the bytes of a checkpoint that lies on another node's disk here, through the
// head. Answer: PullEvent. Nothing of an abandoned generation.
struct PullState {
  Generation generation;
  protocol::FromCheckpoint from;
};

// Run the local steps of step `step` for these ranks, from the contexts of version `step` into new
// ones. Answer: one PartSummed for each bucket and part of the range (protocol::Contrib), as it is
// ready.
// Also tells that nobody reads the contributions or reduced buckets of earlier steps any longer.
struct StartLocalSteps {
  Generation generation;
  Version step = 0;
  RankRange ranks;
  std::optional<VirtualRank> audited{};  // of `ranks`: AuditDone follows for what this one gives
};

// Compute the local step of this rank, whoever owns it, and keep nothing of it. `step` is the
// version held here. Answer: AuditDone.
struct RunAudit {
  Generation generation;
  Version step = 0;
  VirtualRank rank = 0;
};

// A contribution to a bucket that this worker owns.
struct Part {
  RankRange ranks;
  protocol::Bulk data;
  Incarnation from;
};

// All ranks are there: sum the parts in the order of the canonical tree, or at level D0 in rank
// order (the update takes the mean). Answer: BucketReduced, or DataUnreadable.
struct ReduceBucket {
  Generation generation;
  Version step = 0;
  std::uint32_t bucket = 0;
  std::vector<Part> parts;  // ascending by rank, covering [0, max_p) exactly
};

// All buckets are staged: make version step + 1. Answer: UpdateApplied, or DataUnreadable with
// nothing changed (so every bucket is mapped before the first one is applied).
struct ApplyUpdate {
  Generation generation;
  Version step = 0;
  std::vector<protocol::Reduced> buckets;     // by bucket number
  std::vector<protocol::RankResult> results;  // of all ranks: losses, and contexts of step + 1
  bool last = false;                          // version step + 1 ends the job: digest the state too
};

// Describe the version held here for a peer that fetches it. Answer: VersionExported.
struct ExportVersion {
  Generation generation;
  Incarnation to;
};

// Evaluate the version held here. Answer: EvaluationDone.
struct RunEvaluation {
  Generation generation;
  Version version = 0;
};

// Write the version held here, as protocol::WriteCheckpoint says. Answer: CheckpointFinished.
struct WriteVersion {
  std::uint64_t request = 0;
  std::string directory;
  bool periodic = false;
  std::vector<std::string> remove{};
  bool make_parent = false;
};

// --- effects: the rest -------------------------------------------------------------------------

struct SendHead {
  protocol::WorkerMessage message;
};

// The shell chooses how bulk data goes (transport.h). `channel`: the peer's.
struct SendPeer {
  Incarnation to;
  std::string address;
  std::string host_id;
  protocol::PeerMessage message;
  protocol::ChannelPoint channel{};
};

// The head has released this worker: end the process with status 0.
struct Exit {};

// Something that the protocol excludes has happened: print it and end the process. The job goes on
// without this worker, and no bit of the result can have been touched.
struct Abort {
  std::string reason;
};

// A message that a correct peer cannot have sent was dropped: log and count it.
struct ReportAnomaly {
  std::string text;
};

using Effect = std::variant<AbandonGenerations, LoadVersion, StartLocalSteps, RunAudit,
                            ReduceBucket, ApplyUpdate, ExportVersion, RunEvaluation, WriteVersion,
                            PullState, SendHead, SendPeer, Exit, Abort, ReportAnomaly>;
using Effects = std::vector<Effect>;

// --- events: completions of the engine ---------------------------------------------------------

struct VersionLoaded {
  Version version = 0;
};

// One part of the own ranks is summed for one bucket. `ranks`, `results`: as in protocol::Contrib.
struct PartSummed {
  Generation generation;
  Version step = 0;
  std::uint32_t bucket = 0;
  RankRange ranks;
  protocol::Bulk data;
  std::vector<protocol::RankResult> results;
};

struct BucketReduced {
  Generation generation;
  Version step = 0;
  std::uint32_t bucket = 0;
  protocol::Bulk data;
};

// `digest`: as in protocol::Audited.
struct AuditDone {
  Generation generation;
  Version step = 0;
  VirtualRank rank = 0;
  Digest digest;
};

struct UpdateApplied {
  protocol::LedgerLine line;  // of the version that was made
};

// `state` without stamp and unacknowledged lines, which the core adds.
struct VersionExported {
  Generation generation;
  Incarnation to;
  protocol::State state;
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
  protocol::VersionDigests digests;
  std::string error;  // not empty: no checkpoint was written
  ErrorKind error_kind = ErrorKind::kFailure;
};

// A LoadVersion, ReduceBucket or ApplyUpdate could not read, or could not verify, what `of` had
// offered: it died or left. Nothing was changed. Not for files of this host (EngineFailed).
struct DataUnreadable {
  Generation generation;
  Incarnation of;
};

// The checkpoint of a LoadVersion is damaged, or cannot be read here. Nothing was changed.
struct CheckpointDamaged {
  Generation generation;
  std::string path;
  std::string error;
  bool gone = false;  // as in protocol::CheckpointUnreadable
};

// The job cannot go on, on whatever worker: protocol::Failed.
struct EngineFailed {
  std::string error;
};

using EngineEvent = std::variant<VersionLoaded, PartSummed, BucketReduced, AuditDone, UpdateApplied,
                                 VersionExported, EvaluationDone, CheckpointFinished,
                                 DataUnreadable, CheckpointDamaged, EngineFailed>;

// --- events: links to other workers -------------------------------------------------------------

// Bytes of a message of this peer have come; the message itself follows when it is complete.
struct BytesArrived {
  Incarnation from;
};

// The link to this peer broke: what was sent over it may be lost, also when it is up again.
struct LinkLost {
  Incarnation peer;
};

using LinkEvent = std::variant<BytesArrived, LinkLost>;

// --- events: of a PullState
// -----------------------------------------------------------------------

// Bytes of it have come.
struct PullProgress {
  Generation generation;
};

// All of it lies in the directory `copy`, which belongs to the LoadVersion that follows.
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
