#include "store/dataset/job_sampler.h"

namespace es::store {

Result<EpochSampler> job_sampler(const JobSpec& spec, std::uint64_t train_count) {
  SamplerOptions options{.samples = train_count,
                         .max_p = spec.max_p,
                         .batch_size = spec.batch_size,
                         .seed = spec.seed,
                         .weights = nullptr};
  if (!spec.data.weights.empty()) {
    auto weights = SampleWeights::read(spec.data.weights, train_count);
    if (!weights) return weights.error();
    options.weights = std::make_shared<const SampleWeights>(*std::move(weights));
  }
  return EpochSampler::create(options);
}

}  // namespace es::store
