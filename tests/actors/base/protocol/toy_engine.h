#pragma once
// A symbolic training engine for the protocol cores: parameters, gradients and contexts are 64-bit
// hashes of their inputs. A rank that is summed twice or not at all, a gradient of another version,
// or a context of another step therefore gives another value, and the comparison with the reference
// finds it.
#include <bit>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "actors/worker/core/worker_events.h"
#include "proto/base/job_spec.h"

namespace es::test {

struct ToyVersion {
  Version version = 0;
  std::vector<std::uint64_t> params;    // By bucket.
  std::vector<std::uint64_t> moments;   // By bucket; 0: they are not held.
  std::vector<std::uint64_t> contexts;  // By rank.
  std::string decisions{};  // Of the evaluations before this version; empty if the job has none.
  bool operator==(const ToyVersion&) const = default;
};

struct ToyJob {
  std::uint64_t seed = 1;
  std::uint32_t max_p = 4;
  std::uint32_t bucket_count = 2;
  Version last_version = 4;
  JobSpec spec{};  // Only what decides by evaluations counts.
};

// Returns whether `ranks` are exactly the ranks of one node of the canonical gradient tree over [0,
// max_p): they begin at a multiple of a power of two, and their number is this power, or less where
// max_p cuts the node off.
inline bool is_tree_range(RankRange ranks, std::uint32_t max_p) {
  if (ranks.begin >= ranks.end || ranks.end > max_p) return false;
  const std::uint64_t size = std::bit_ceil(std::uint64_t{ranks.size()});
  return ranks.begin % size == 0 && (ranks.size() == size || ranks.end == max_p);
}

// The value of a metric in the totals of an evaluation: a small whole number, so some are equal.
double toy_metric(const actors::protocol::Bytes& totals, const std::string& metric);
// The last version of an undisturbed run: an evaluation may end it early.
Version reference_end(const ToyJob& job);
// The best evaluated version up to this one; 0: there is none.
Version reference_best(const ToyJob& job, Version through);

// Version `version` of an undisturbed run, and its ledger line.
ToyVersion reference_version(const ToyJob& job, Version version);
actors::protocol::LedgerLine reference_line(const ToyJob& job, Version version);
// REQUIRES: all moments are held, except for the digest of the parameters.
VersionDigests digests_of(const ToyVersion& version);
// The same version with the moments of these buckets only.
ToyVersion only(ToyVersion version, const std::vector<std::uint32_t>& held);

// The ranges of the maximal nodes of the canonical tree over [0, max_p) inside the range,
// ascending.
std::vector<RankRange> maximal_ranges(RankRange range, std::uint32_t max_p);

// Performs the engine effects of one WorkerCore in order, one small part in each call of run(). The
// gradient of a worker with one rank leaves early: it has room for two parts that are not read yet,
// beside that of bucket 0, which it makes last. While it waits for room, it makes sums only.
class ToyEngine {
 public:
  // `readable(of)`: whether the shared memory of that worker can be read now.
  // `checkpoint(path)`: the checkpoint at this path; none when it is damaged.
  ToyEngine(ToyJob job, Incarnation self, std::function<bool(Incarnation)> readable,
            std::function<std::optional<ToyVersion>(const std::string&)> checkpoint)
      : job_(job),
        self_(self),
        readable_(std::move(readable)),
        checkpoint_(std::move(checkpoint)) {}

  void add(const actors::worker::Effect& effect);
  bool busy() const { return next_piece() != queue_.end() || (is_held_up() && !told_held_up_); }
  // REQUIRES: busy().
  actors::worker::EngineEvent run();

  const std::optional<ToyVersion>& held() const { return held_; }
  // A part that its worker does not have any more.
  using GoneParts = std::set<std::tuple<Incarnation, Generation, Version, std::uint32_t>>;
  // Of all engines of a job.
  std::shared_ptr<GoneParts> gone = std::make_shared<GoneParts>();
  bool sharded = false;  // The job has sharded state.
  // The result of a WriteVersion. It is false if the path exists already.
  std::function<bool(const std::string&, const ToyVersion&)> on_checkpoint;
  // The data that the local step of a rank reads; may be empty. It travels with the result of the
  // rank.
  std::function<std::vector<std::uint64_t>(Version step, VirtualRank rank)> read_samples;
  // The data that the steps of a version had read, all ranks in order; with read_samples only.
  std::function<void(Version made, const std::vector<std::uint64_t>&)> on_samples_used;

 private:
  struct Piece {
    Generation generation;
    bool atomic = false;  // It is kept by AbandonGenerations.
    std::function<actors::worker::EngineEvent()> work;
    bool needs_room = false;    // It makes a part of a gradient that leaves early.
    bool is_step_work = false;  // It is also done in the middle of a local step.
  };
  std::deque<Piece>::const_iterator next_piece() const;
  bool is_held_up() const;
  void perform(const actors::worker::LoadVersion& effect);
  void perform(const actors::worker::StartLocalSteps& effect);
  void perform(const actors::worker::ReduceBucket& effect);
  void perform(const actors::worker::PartsRead& effect);
  void perform(const actors::worker::ApplyUpdate& effect);
  void perform(const actors::worker::HoldSum& effect);
  void perform(const actors::worker::UpdateShards& effect);
  void perform(const actors::worker::CommitShards& effect);
  void perform(const actors::worker::LoadShards& effect);
  void perform(const actors::worker::KeepShards& effect);
  void perform(const actors::worker::ExportShards& effect);
  void perform(const actors::worker::DigestState& effect);
  void perform(const actors::worker::SupplyShards& effect);
  void perform(const actors::worker::ExportVersion& effect);
  void perform(const actors::worker::RunEvaluation& effect);
  void perform(const actors::worker::WriteVersion& effect);
  actors::worker::EngineEvent load(const actors::worker::LoadVersion& effect);
  actors::worker::EngineEvent sum(const actors::worker::StartLocalSteps& effect,
                                  std::uint32_t bucket, RankRange ranks);
  actors::worker::EngineEvent reduce(const actors::worker::ReduceBucket& effect);
  actors::worker::EngineEvent update(const actors::worker::ApplyUpdate& effect);
  actors::worker::EngineEvent commit(const actors::worker::CommitShards& effect);
  actors::worker::EngineEvent load(const actors::worker::LoadShards& effect);
  actors::worker::EngineEvent commit(std::vector<actors::protocol::RankResult> results,
                                     const std::string& decisions);
  void update_bucket(std::uint32_t bucket, std::uint64_t sum, std::uint64_t norm,
                     const std::string& decisions);
  bool holds_all() const;
  // Does this as soon as all moments of the version held now are there.
  void with_whole(Generation generation,
                  std::function<actors::worker::EngineEvent(const ToyVersion&)> then);

  ToyJob job_;
  Incarnation self_;
  std::function<bool(Incarnation)> readable_;
  std::function<std::optional<ToyVersion>(const std::string&)> checkpoint_;
  std::optional<ToyVersion> held_;
  bool ahead_ = false;  // The held shards are those of the next version.
  std::string ahead_decisions_;
  std::deque<Piece> queue_;
  // Of a step whose gradients leave early: buckets whose parts are not read yet.
  std::set<std::uint32_t> waiting_parts_;
  bool told_held_up_ = false;
  Generation step_generation_;
  Version step_ = 0;
  struct Waiting {
    ToyVersion version;
    std::function<actors::worker::EngineEvent(const ToyVersion&)> then;
  };
  std::vector<Waiting> waiting_;  // For SupplyShards.
};

}  // namespace es::test
