#pragma once
// The EpochSampler of a job: its order of the samples or groups, or its weighted draws.
#include "proto/base/job_spec.h"
#include "store/dataset/epoch_sampler.h"

namespace es::store {

// Errors: those of EpochSampler::create; those of SampleWeights::read and SampleGroups::read, if
// the job has data.weights or data.groups.
Result<EpochSampler> job_sampler(const JobSpec& spec, std::uint64_t train_count,
                                 const LossTurns& turns = {});

}  // namespace es::store
