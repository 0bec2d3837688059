#pragma once
// Length buckets: samples of several lengths, or images of several sizes. A bucket has the shapes
// of one program of the model file. Every training sample belongs to one bucket, and the buckets
// have the numbers of the programs, so bucket 0 is that of the model itself.
//
// A bucket *holds* another one if no input of the other one has a larger extent. A ladder is a run
// of buckets each of which is held by the one before it; one that is not begins the next ladder.
// Lengths in descending order are one ladder. With P virtual ranks, B samples for each EST and step
// and G = P*B, the order of epoch e is
//
//   1. The n samples of a ladder, bucket by bucket. Those of bucket b are in ascending order and
//      then permuted by the KeyedPermutation with the key of DataStream::kBucketShuffle and 16 e +
//      b.
//   2. The epoch leaves out n mod G samples of ladder l: those at the places from floor(r * n /
//      2^64) on, and after the last place from the first one on. r has 64 bits: the first two words
//      of Philox at the counter l, the first one low, under the key of DataStream::kBucketCut and
//      e. So every sample of a ladder is left out equally often.
//   3. The others are cut into global batches of G, ladder by ladder. The epoch uses them in the
//      order of the KeyedPermutation with the key of DataStream::kShuffle and e, so global step k
//      uses the batch of its element k.
//   4. Rank r uses the B samples that begin at r*B of the global batch. Their mini-batch has the
//      shapes of the bucket of the first one, which holds those of the others.
//
// So a global batch has one length, but for those at the ends of buckets, and all devices of a step
// have equal work. All of this is a pure function of (seed, epoch, step, rank).
//
// Immutable and thread-safe. It has 8 bytes for each sample.
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

inline constexpr std::uint32_t kLengthBucketsMax = 16;

// Which buckets a job has: one entry for each, whether the one before it holds it. The entry of the
// first one has no meaning.
using BucketLadders = std::vector<bool>;

// Reads a file .npy with one axis of `samples` integers of the type u1, the numbers of the buckets
// of samples. `what` names these in errors: "training samples". Errors: those of NpyFile; usage,
// naming the file and what is allowed.
Result<std::vector<std::uint8_t>> read_bucket_numbers(const std::filesystem::path& file,
                                                      std::uint64_t samples, std::uint32_t buckets,
                                                      const char* what);

// A mini-batch of an evaluation: the samples [begin, begin + count), with the shapes of a bucket.
struct EvaluatedSamples {
  std::uint64_t begin = 0, count = 0;
  std::uint32_t bucket = 0;
  bool operator==(const EvaluatedSamples&) const = default;
};

// The mini-batches of an evaluation of `samples` samples, in their order. One ends after
// `batch_size` samples, or before a sample of another ladder, and has the shapes of the smallest
// bucket that holds its samples. `numbers` has the bucket of each sample; if it is empty, all are
// in bucket 0. REQUIRES: batch_size > 0.
std::vector<EvaluatedSamples> evaluation_batches(std::span<const std::uint8_t> numbers,
                                                 const BucketLadders& held_by_last,
                                                 std::uint64_t samples, std::uint32_t batch_size);

class LengthBuckets {
 public:
  // `numbers` has the bucket of each sample, and `global_batch` is G. Error (usage): a bucket
  // without a sample, or a ladder with fewer samples than one global batch. REQUIRES: 1 to
  // kLengthBucketsMax buckets; each number is that of one.
  static Result<LengthBuckets> create(std::span<const std::uint8_t> numbers,
                                      const BucketLadders& held_by_last,
                                      std::uint64_t global_batch);

  std::uint64_t samples() const { return members_.size(); }
  std::uint64_t global_batch() const { return global_batch_; }
  // Global batches of an epoch, at least 1.
  std::uint64_t global_batches() const { return ladders_.back().batches_end; }

  // Writes the samples at the positions first, first + 1, ... of the global batch of a step.
  // REQUIRES: step < global_batches(); first + out.size() <= global_batch().
  void fill(std::uint64_t seed, std::uint64_t epoch, std::uint64_t step, std::uint64_t first,
            std::span<std::uint64_t> out) const;
  // The bucket of the sample at a position of the global batch of a step. REQUIRES: as fill().
  std::uint32_t bucket(std::uint64_t seed, std::uint64_t epoch, std::uint64_t step,
                       std::uint64_t position) const;

 private:
  struct Ladder {
    std::uint32_t first_bucket = 0;
    std::uint64_t begin = 0, end = 0;  // of its samples in members_
    std::uint64_t batches_begin = 0, batches_end = 0;

    std::uint64_t samples() const { return end - begin; }
  };
  // Samples of one bucket at consecutive places of members_.
  struct Run {
    std::uint32_t bucket = 0;
    std::uint64_t first = 0, count = 0;  // in the permutation of the bucket
  };

  LengthBuckets(std::span<const std::uint8_t> numbers, std::uint32_t buckets,
                std::uint64_t global_batch);
  Status add_ladders(const BucketLadders& held_by_last);
  Run run_at(std::uint64_t seed, std::uint64_t epoch, std::uint64_t step, std::uint64_t position,
             std::uint64_t count) const;
  std::uint64_t begin_of(std::uint32_t bucket) const { return bucket == 0 ? 0 : ends_[bucket - 1]; }

  std::uint64_t global_batch_;
  std::vector<std::uint64_t> members_;  // the samples, bucket by bucket, in ascending order
  std::vector<std::uint64_t> ends_;     // of each bucket in members_
  std::vector<Ladder> ladders_;
};

}  // namespace es::store
