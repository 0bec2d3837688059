#pragma once
// The EpochSampler of a job: its order of the samples, groups or length buckets, or its weighted
// draws.
#include "proto/base/job_spec.h"
#include "store/dataset/captured_inputs.h"
#include "store/dataset/epoch_sampler.h"

namespace es::store {

// `turns` and `inputs` are those of the model file; a built-in model has none. Errors: those of
// EpochSampler::create; those of SampleWeights::read, SampleGroups::read, read_bucket_numbers and
// LengthBuckets::create, if the job has data.weights, data.groups or data.length_buckets. Error
// (usage): several losses with data.length_buckets, or several other programs without.
Result<EpochSampler> job_sampler(const JobSpec& spec, std::uint64_t train_count,
                                 const LossTurns& turns = {},
                                 const CapturedInputs* inputs = nullptr);

// The mini-batches of an evaluation. Errors: those of read_bucket_numbers, if the job has
// data.length_buckets.
Result<std::vector<EvaluatedSamples>> job_evaluation(const JobSpec& spec, std::uint64_t eval_count,
                                                     const CapturedInputs* inputs);

}  // namespace es::store
