#pragma once
// EpochSampler: which training sample goes where, as a pure function of
// (seed, epoch, step in epoch, virtual rank, position in the batch).
//
// With N samples, P virtual ranks and B samples per EST and step, an epoch is one permutation of
// [0, N) and has floor(N / (P*B)) global steps. Global step k of the epoch takes the positions
// [k*P*B, (k+1)*P*B) of the permutation, and rank r of these the B positions that begin at
// k*P*B + r*B. The last, incomplete global batch of an epoch is dropped (PyTorch's
// DistributedSampler with drop_last does the same; its ranks take strided positions, ours
// contiguous ones). So within an epoch no sample is used twice, and where the ESTs run, or when
// that changed, has no influence: there is no cursor beyond the number of the global step.
//
// The permutation: keyed_permutation.h, under a key drawn from (seed, epoch).
//
// Immutable, thread-safe, allocates nothing.
#include <cstdint>
#include <span>

#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "store/dataset/keyed_permutation.h"

namespace es::store {

struct SamplerOptions {
  std::uint64_t samples = 0;     // N
  std::uint32_t max_p = 0;       // P
  std::uint32_t batch_size = 0;  // B, per EST
  std::uint64_t seed = 0;
};

// Where a global step lies in the data.
struct DataCursor {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;  // in [0, steps_per_epoch)
  bool operator==(const DataCursor&) const = default;
};

class EpochSampler {
 public:
  // Error (usage): a zero, or fewer samples than one global batch (P*B).
  static Result<EpochSampler> create(const SamplerOptions& options);

  std::uint64_t samples() const { return options_.samples; }
  std::uint32_t max_p() const { return options_.max_p; }
  std::uint32_t batch_size() const { return options_.batch_size; }
  std::uint64_t seed() const { return options_.seed; }
  // At least 1.
  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }

  // Global step t (0-based, over the whole job) is step t mod steps_per_epoch of its epoch.
  DataCursor cursor(std::uint64_t global_step) const {
    return {global_step / steps_per_epoch_, global_step % steps_per_epoch_};
  }

  // Index of the training sample that is number `i` of the batch of `rank`.
  // REQUIRES: at.step < steps_per_epoch(), rank < max_p(), i < batch_size().
  std::uint64_t sample(DataCursor at, VirtualRank rank, std::uint32_t i) const;

  // All samples of the batch of `rank`. REQUIRES: as sample; samples.size() == batch_size().
  void batch(DataCursor at, VirtualRank rank, std::span<std::uint64_t> samples) const;

  // Element `position` of the permutation of `epoch`. REQUIRES: position < samples().
  std::uint64_t permuted(std::uint64_t epoch, std::uint64_t position) const;

 private:
  explicit EpochSampler(const SamplerOptions& options);
  KeyedPermutation permutation(std::uint64_t epoch) const;

  SamplerOptions options_;
  std::uint64_t steps_per_epoch_;
};

}  // namespace es::store
