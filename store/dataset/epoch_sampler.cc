#include "store/dataset/epoch_sampler.h"

#include <string>

#include "proto/base/check.h"
#include "store/dataset/stream_key.h"

namespace es::store {
namespace {

constexpr std::uint32_t kHalfBitsMin = 4;
constexpr std::uint64_t kSamplesMax = std::uint64_t{1} << 62;

// Half the width in bits of the smallest Feistel domain that holds `samples` values.
std::uint32_t half_bits_for(std::uint64_t samples) {
  std::uint32_t half_bits = kHalfBitsMin;
  while ((std::uint64_t{1} << (2 * half_bits)) < samples) ++half_bits;
  return half_bits;
}

}  // namespace

Result<EpochSampler> EpochSampler::create(const SamplerOptions& options) {
  if (options.max_p == 0) return usage_error("max_p = 0: allowed is at least 1");
  if (options.batch_size == 0) return usage_error("batch_size = 0: allowed is at least 1");
  const std::uint64_t global_batch = std::uint64_t{options.max_p} * options.batch_size;
  if (options.samples < global_batch || options.samples > kSamplesMax)
    return usage_error("training samples = " + std::to_string(options.samples) +
                       ": allowed is at least max_p * batch_size = " +
                       std::to_string(options.max_p) + " * " + std::to_string(options.batch_size) +
                       " = " + std::to_string(global_batch) + " (one global batch), at most 2^62");
  return EpochSampler(options, half_bits_for(options.samples));
}

EpochSampler::EpochSampler(const SamplerOptions& options, std::uint32_t half_bits)
    : options_(options),
      steps_per_epoch_(options.samples / (std::uint64_t{options.max_p} * options.batch_size)),
      half_bits_(half_bits) {}

std::uint64_t EpochSampler::sample(DataCursor at, VirtualRank rank, std::uint32_t i) const {
  ES_CHECK(at.step < steps_per_epoch_ && rank < options_.max_p && i < options_.batch_size);
  const std::uint64_t batch = at.step * options_.max_p + rank;
  return permuted(at.epoch, batch * options_.batch_size + i);
}

std::uint64_t EpochSampler::permuted(std::uint64_t epoch, std::uint64_t position) const {
  ES_CHECK(position < options_.samples);
  const PhiloxKey key = stream_key(options_.seed, DataStream::kShuffle, epoch);
  std::uint64_t value = feistel(position, key);
  while (value >= options_.samples) value = feistel(value, key);
  return value;
}

std::uint64_t EpochSampler::feistel(std::uint64_t value, PhiloxKey key) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = left ^ (philox4x32_10(index_counter(right, round), key)[0] & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

}  // namespace es::store
