#include "store/dataset/job_sampler.h"

#include <filesystem>

#include "proto/base/check.h"

namespace es::store {
namespace {

// Whether no input of the smaller program has a larger extent.
bool holds(const CapturedInputs& larger, const CapturedInputs& smaller) {
  for (std::size_t i = 0; i < larger.inputs.size(); ++i) {
    const std::vector<std::int64_t>& most = larger.inputs[i].shape;
    const std::vector<std::int64_t>& found = smaller.inputs[i].shape;
    for (std::size_t axis = 0; axis < most.size(); ++axis)
      if (found[axis] > most[axis]) return false;
  }
  return true;
}

std::filesystem::path bucket_file(const JobSpec& spec, const char* name) {
  return std::filesystem::path(spec.data.length_buckets) / name;
}

BucketLadders ladders_of(const CapturedInputs& inputs) {
  BucketLadders ladders = {false};
  for (std::uint32_t b = 1; b <= inputs.others.size(); ++b)
    ladders.push_back(holds(inputs.of(b - 1), inputs.of(b)));
  return ladders;
}

Result<LengthBuckets> length_buckets(const JobSpec& spec, std::uint64_t train_count,
                                     const CapturedInputs& inputs) {
  const BucketLadders ladders = ladders_of(inputs);
  if (ladders.size() > kLengthBucketsMax)
    return usage_error("model.file: " + std::to_string(ladders.size()) +
                       " programs: allowed are at most " + std::to_string(kLengthBucketsMax) +
                       " with data.length_buckets");
  const auto numbers =
      read_bucket_numbers(bucket_file(spec, "train.npy"), train_count,
                          static_cast<std::uint32_t>(ladders.size()), "training samples");
  if (!numbers) return numbers.error();
  return LengthBuckets::create(*numbers, ladders, std::uint64_t{spec.max_p} * spec.batch_size);
}

}  // namespace

Result<EpochSampler> job_sampler(const JobSpec& spec, std::uint64_t train_count,
                                 const LossTurns& turns, const CapturedInputs* inputs) {
  SamplerOptions options{.samples = train_count,
                         .max_p = spec.max_p,
                         .batch_size = spec.batch_size,
                         .seed = spec.seed,
                         .weights = nullptr,
                         .groups = nullptr,
                         .turns = turns};
  if (!spec.data.weights.empty()) {
    auto weights = SampleWeights::read(spec.data.weights, train_count);
    if (!weights) return weights.error();
    options.weights = std::make_shared<const SampleWeights>(*std::move(weights));
  }
  if (!spec.data.groups.empty()) {
    auto groups = SampleGroups::read(spec.data.groups, train_count);
    if (!groups) return groups.error();
    options.groups = std::make_shared<const SampleGroups>(*std::move(groups));
  }
  if (spec.data.length_buckets.empty()) {
    if (inputs != nullptr && !inputs->others.empty() && !turns.several())
      return usage_error("model.file: " + std::to_string(inputs->others.size() + 1) +
                         " programs: allowed are those of several losses, and with "
                         "data.length_buckets those of several lengths");
  } else {
    ES_CHECK(inputs != nullptr);
    if (turns.several())
      return usage_error(
          "data.length_buckets with a model of several losses: allowed is one of them");
    auto buckets = length_buckets(spec, train_count, *inputs);
    if (!buckets) return buckets.error();
    options.buckets = std::make_shared<const LengthBuckets>(*std::move(buckets));
  }
  return EpochSampler::create(options);
}

Result<std::vector<EvaluatedSamples>> job_evaluation(const JobSpec& spec, std::uint64_t eval_count,
                                                     const CapturedInputs* inputs) {
  if (spec.data.length_buckets.empty() || eval_count == 0)
    return evaluation_batches({}, {false}, eval_count, spec.batch_size);
  ES_CHECK(inputs != nullptr);
  const BucketLadders ladders = ladders_of(*inputs);
  const auto numbers =
      read_bucket_numbers(bucket_file(spec, "eval.npy"), eval_count,
                          static_cast<std::uint32_t>(ladders.size()), "evaluation samples");
  if (!numbers) return numbers.error();
  return evaluation_batches(*numbers, ladders, eval_count, spec.batch_size);
}

}  // namespace es::store
