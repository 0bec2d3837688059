#pragma once
// EpochSampler decides which training sample is used where. The decision is a pure function of
// (seed, epoch, step in epoch, virtual rank, position in the batch).
//
// With N samples, P virtual ranks and B samples for each EST and step, an epoch is one permutation
// of [0, N) and has floor(N / (P*B)) global steps. Global step k of the epoch uses the positions
// [k*P*B, (k+1)*P*B) of the permutation, of which rank r uses the B positions that begin at k*P*B +
// r*B. The last, incomplete global batch of an epoch is dropped. (PyTorch's DistributedSampler with
// drop_last does the same, but its ranks use strided positions and not contiguous ones.) So no
// sample is used twice in an epoch, and it does not matter where an EST runs or when it moves: the
// only position in the data is the number of the global step.
//
// A model with several losses (loss_turns.h) makes several global steps with one global batch; k is
// then the number of the iteration.
//
// The permutation is a KeyedPermutation with a key derived from (seed, epoch). With weights an
// epoch has N draws with replacement in its place (sample_weights.h), in the same positions. With
// groups N is their number, and each position is a sample of its group (sample_groups.h). With
// length buckets the global batches are made of samples of one length (length_buckets.h).
//
// Immutable, thread-safe; allocates no memory.
#include <cstdint>
#include <memory>
#include <span>

#include "proto/base/ids.h"
#include "proto/base/loss_turns.h"
#include "proto/base/result.h"
#include "store/dataset/keyed_permutation.h"
#include "store/dataset/length_buckets.h"
#include "store/dataset/sample_groups.h"
#include "store/dataset/sample_weights.h"

namespace es::store {

struct SamplerOptions {
  std::uint64_t samples = 0;     // N
  std::uint32_t max_p = 0;       // P
  std::uint32_t batch_size = 0;  // B, per EST
  std::uint64_t seed = 0;
  std::shared_ptr<const SampleWeights> weights;  // none: a permutation
  std::shared_ptr<const SampleGroups> groups;    // none: every sample is one; not with weights
  LossTurns turns = {};
  // None: all samples have one length; neither with weights nor with groups.
  std::shared_ptr<const LengthBuckets> buckets = nullptr;

  std::uint64_t global_batch() const { return std::uint64_t{max_p} * batch_size; }
  // The elements of an epoch. With length buckets only those of whole global batches.
  std::uint64_t positions() const {
    if (buckets) return buckets->global_batches() * global_batch();
    return groups ? groups->groups() : samples;
  }
};

// Position of a global step in the data.
struct DataCursor {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;  // the global batch in the epoch, in [0, steps_per_epoch)
  bool operator==(const DataCursor&) const = default;
};

class EpochSampler {
 public:
  // Error (usage): a value is zero, or there are fewer samples or groups than one global batch
  // (P*B). REQUIRES: there are as many weights, keys of groups, or samples in length buckets, as
  // samples, and only one of the three; the global batches of the buckets are P*B samples.
  static Result<EpochSampler> create(const SamplerOptions& options);

  std::uint64_t samples() const { return options_.samples; }
  // The elements of an epoch: the samples, or their groups.
  std::uint64_t positions() const { return options_.positions(); }
  std::uint32_t max_p() const { return options_.max_p; }
  std::uint32_t batch_size() const { return options_.batch_size; }
  std::uint64_t seed() const { return options_.seed; }
  // The global batches of an epoch, at least 1.
  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }
  // The global steps of the first epochs.
  std::uint64_t steps_of_epochs(std::uint64_t epochs) const {
    return options_.turns.steps_of(epochs * steps_per_epoch_);
  }

  // Global step t (from 0, over the whole job) uses global batch t of the job; of several losses,
  // that of its iteration. Global batch b is step b mod steps_per_epoch of its epoch.
  DataCursor cursor(std::uint64_t global_step) const {
    const std::uint64_t batch = options_.turns.at(global_step).iteration;
    return {batch / steps_per_epoch_, batch % steps_per_epoch_};
  }

  // Index of the training sample at position `i` of the batch of `rank`. REQUIRES: at.step <
  // steps_per_epoch(), rank < max_p(), i < batch_size().
  std::uint64_t sample(DataCursor at, VirtualRank rank, std::uint32_t i) const;

  // The length bucket, and so the program of the model, of the batch of `rank`; 0 without buckets.
  // REQUIRES: as sample().
  std::uint32_t bucket(DataCursor at, VirtualRank rank) const;

  // All samples of the batch of `rank`. REQUIRES: as sample(); samples.size() == batch_size().
  void batch(DataCursor at, VirtualRank rank, std::span<std::uint64_t> samples) const;

  // Element `position` of the permutation, or of the draws, of `epoch`. REQUIRES: position <
  // positions().
  std::uint64_t permuted(std::uint64_t epoch, std::uint64_t position) const;

 private:
  explicit EpochSampler(const SamplerOptions& options);
  KeyedPermutation permutation(std::uint64_t epoch) const;

  SamplerOptions options_;
  std::uint64_t steps_per_epoch_;
};

}  // namespace es::store
