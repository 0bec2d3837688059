#include "store/dataset/epoch_sampler.h"

#include <string>

#include "proto/base/check.h"
#include "store/dataset/stream_key.h"

namespace es::store {
namespace {

constexpr std::uint64_t kSamplesMax = std::uint64_t{1} << 62;

}  // namespace

Result<EpochSampler> EpochSampler::create(const SamplerOptions& options) {
  if (options.max_p == 0) return usage_error("max_p = 0: allowed is at least 1");
  if (options.batch_size == 0) return usage_error("batch_size = 0: allowed is at least 1");
  ES_CHECK(!options.weights || options.weights->samples() == options.samples);
  ES_CHECK(!options.groups || (!options.weights && options.groups->samples() == options.samples));
  const std::uint64_t global_batch = options.global_batch();
  ES_CHECK(!options.buckets ||
           (!options.weights && !options.groups && options.buckets->samples() == options.samples &&
            options.buckets->global_batch() == global_batch));
  if (options.positions() < global_batch || options.samples > kSamplesMax)
    return usage_error(
        std::string(options.groups ? "groups of training samples" : "training samples") + " = " +
        std::to_string(options.positions()) + ": allowed is at least max_p * batch_size = " +
        std::to_string(options.max_p) + " * " + std::to_string(options.batch_size) + " = " +
        std::to_string(global_batch) + " (one global batch), at most 2^62");
  return EpochSampler(options);
}

EpochSampler::EpochSampler(const SamplerOptions& options)
    : options_(options),
      // Rounded down: samples that do not fill a global batch are left out of the epoch. The
      // permutation of each epoch leaves out others.
      steps_per_epoch_(options.positions() / options.global_batch()) {}

KeyedPermutation EpochSampler::permutation(std::uint64_t epoch) const {
  return {options_.positions(), stream_key(options_.seed, DataStream::kShuffle, epoch)};
}

std::uint64_t EpochSampler::sample(DataCursor at, VirtualRank rank, std::uint32_t i) const {
  ES_CHECK(at.step < steps_per_epoch_ && rank < options_.max_p && i < options_.batch_size);
  // The position depends on the step and the virtual rank only, and not on devices. So each EST
  // reads the same samples wherever it runs.
  const std::uint64_t batch = at.step * options_.max_p + rank;
  return permuted(at.epoch, batch * options_.batch_size + i);
}

void EpochSampler::batch(DataCursor at, VirtualRank rank, std::span<std::uint64_t> samples) const {
  ES_CHECK(at.step < steps_per_epoch_ && rank < options_.max_p);
  ES_CHECK(samples.size() == options_.batch_size);
  const std::uint64_t first = (at.step * options_.max_p + rank) * options_.batch_size;
  if (options_.buckets)
    return options_.buckets->fill(options_.seed, at.epoch, at.step,
                                  std::uint64_t{rank} * options_.batch_size, samples);
  if (options_.weights) {
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = permuted(at.epoch, first + i);
    return;
  }
  permutation(at.epoch).fill(first, samples);
  if (!options_.groups) return;
  for (std::uint64_t& sample : samples)
    sample = options_.groups->member(options_.seed, at.epoch, sample);
}

std::uint32_t EpochSampler::bucket(DataCursor at, VirtualRank rank) const {
  ES_CHECK(at.step < steps_per_epoch_ && rank < options_.max_p);
  if (!options_.buckets) return 0;
  // The samples of a global batch are in the order of their buckets.
  return options_.buckets->bucket(options_.seed, at.epoch, at.step,
                                  std::uint64_t{rank} * options_.batch_size);
}

std::uint64_t EpochSampler::permuted(std::uint64_t epoch, std::uint64_t position) const {
  ES_CHECK(position < options_.positions());
  if (options_.buckets) {
    std::uint64_t sample = 0;
    options_.buckets->fill(options_.seed, epoch, position / options_.global_batch(),
                           position % options_.global_batch(), std::span(&sample, 1));
    return sample;
  }
  if (options_.groups)
    return options_.groups->member(options_.seed, epoch, permutation(epoch)(position));
  if (!options_.weights) return permutation(epoch)(position);
  return options_.weights->draw(stream_key(options_.seed, DataStream::kWeightedDraw, epoch),
                                position);
}

}  // namespace es::store
