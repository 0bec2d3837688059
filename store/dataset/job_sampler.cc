#include "store/dataset/job_sampler.h"

namespace es::store {

Result<EpochSampler> job_sampler(const JobSpec& spec, std::uint64_t train_count,
                                 const LossTurns& turns) {
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
  return EpochSampler::create(options);
}

}  // namespace es::store
