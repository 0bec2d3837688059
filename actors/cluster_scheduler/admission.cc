#include "actors/cluster_scheduler/admission.h"

#include <numeric>

#include "actors/config/job_file.h"
#include "gpu/models/models.h"
#include "gpu/params/buckets.h"
#include "store/checkpoint/checkpoint.h"
#include "store/dataset/epoch_sampler.h"
#include "store/dataset/image_dataset.h"

namespace es::actors {
namespace {

constexpr const char* kWhere = "job";

struct DataFacts {
  store::ImageShape shape;
  std::uint64_t steps_per_epoch = 0;
};

// Synthetic images need not be made to know their shape and number.
Result<DataFacts> look_at_data(const JobSpec& spec) {
  DataFacts facts;
  std::uint64_t samples = spec.data.samples;
  facts.shape = {spec.data.height, spec.data.width, spec.data.channels};
  if (spec.data.kind != "synthetic") {
    const auto dataset = store::open_dataset(spec.data, spec.model.classes);
    if (!dataset) return dataset.error();
    facts.shape = dataset->shape;
    samples = dataset->train.count();
  }
  const auto sampler = store::EpochSampler::create({.samples = samples,
                                                    .max_p = spec.max_p,
                                                    .batch_size = spec.batch_size,
                                                    .seed = spec.seed});
  if (!sampler) return sampler.error();
  facts.steps_per_epoch = sampler->steps_per_epoch();
  return facts;
}

std::uint64_t steps_of(const std::vector<Stage>& stages) {
  return std::accumulate(stages.begin(), stages.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Stage& s) { return sum + s.steps; });
}

// Fixes the total number of steps; a checkpoint's steps count.
Status resolve_steps(JobSpec& spec, Version start, std::uint64_t steps_per_epoch) {
  const std::uint64_t staged = steps_of(spec.stages);
  if (spec.steps == 0 && staged != 0) spec.steps = start + staged;
  if (spec.steps == 0) spec.steps = spec.epochs * steps_per_epoch;
  if (staged != 0 && start + staged != spec.steps)
    return usage_error(std::string(kWhere) + ": steps = " + std::to_string(spec.steps) +
                       ": allowed is the sum of the stages" +
                       (start != 0 ? " after version " + std::to_string(start) : "") + ", " +
                       std::to_string(start + staged));
  if (spec.steps <= start)
    return usage_error(std::string(kWhere) + ": steps = " + std::to_string(spec.steps) +
                       ": allowed is more than the " + std::to_string(start) +
                       " steps of the checkpoint");
  spec.epochs = 0;
  return {};
}

// A run from a checkpoint gives the bits of an uninterrupted run only when everything that decides
// them is the same.
Status check_same_job(const JobSpec& spec, const JobSpec& saved, const std::string& directory) {
  const auto differs = [&](const char* field) {
    return usage_error(directory + ": the checkpoint is of a job with another " + field +
                       "; allowed is the same " + field);
  };
  if (spec.max_p != saved.max_p) return differs("max_p");
  if (spec.batch_size != saved.batch_size) return differs("batch_size");
  if (spec.seed != saved.seed) return differs("seed");
  if (!(spec.model == saved.model)) return differs("model");
  DataSpec data = saved.data;
  data.path = spec.data.path;  // where the files lie does not matter
  if (!(spec.data == data)) return differs("data");
  if (!(spec.optimizer == saved.optimizer)) return differs("optimizer");
  if (!(spec.schedule == saved.schedule)) return differs("schedule");
  return {};
}

Result<Version> look_at_checkpoint(const JobSpec& spec, const std::string& directory) {
  const auto reader = store::CheckpointReader::open(directory);
  if (!reader) return reader.error();
  ES_RETURN_IF_ERROR(reader->verify());
  const auto saved = parse_job(reader->job_toml(), directory);
  if (!saved) return saved.error();
  ES_RETURN_IF_ERROR(check_same_job(spec, *saved, directory));
  return reader->head().version;
}

Result<std::uint32_t> bucket_count(const JobSpec& spec, const store::ImageShape& shape) {
  const auto graph = gpu::build_model(
      spec.model, {spec.batch_size, shape.height, shape.width, shape.channels});
  if (!graph) return graph.error();
  return static_cast<std::uint32_t>(
      gpu::cut_buckets(graph->table, kBucketBytes / std::int64_t{sizeof(float)}).size());
}

std::string key_of(const JobSpec& spec, const store::ImageShape& shape) {
  return spec.model.name + "/w" + std::to_string(spec.model.width) + "/" +
         std::to_string(shape.height) + "x" + std::to_string(shape.width) + "x" +
         std::to_string(shape.channels) + "/" + level_name(spec.level);
}

}  // namespace

Result<AdmittedJob> admit(const std::string& spec_toml, const std::string& from_checkpoint) {
  auto spec = parse_job(spec_toml, kWhere);
  if (!spec) return spec.error();
  const auto data = look_at_data(*spec);
  if (!data) return data.error();
  AdmittedJob job{*std::move(spec), {}, {}, {}};
  if (!from_checkpoint.empty()) {
    const auto version = look_at_checkpoint(job.spec, from_checkpoint);
    if (!version) return version.error();
    job.config.start = protocol::FromCheckpoint{from_checkpoint};
    job.config.start_version = *version;
  }
  ES_RETURN_IF_ERROR(resolve_steps(job.spec, job.config.start_version, data->steps_per_epoch));
  const auto buckets = bucket_count(job.spec, data->shape);
  if (!buckets) return buckets.error();
  job.spec_toml = to_toml(job.spec);
  job.config.spec = job.spec;
  job.config.last_version = job.spec.steps;
  job.config.bucket_count = *buckets;
  job.model_key = key_of(job.spec, data->shape);
  return job;
}

}  // namespace es::actors
