#include "actors/esctl/client/d2_cost.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include "actors/views/render_text.h"
#include "actors/worker/job_model/job_model.h"
#include "gpu/params/buckets.h"

namespace es::actors::esctl {
namespace {

gpu::StepTime monotonic_time() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

// Returns the first samples of the data. If there are fewer than a batch, some of them are
// repeated.
Result<std::vector<float>> first_batch(const store::SampleSource& source, std::uint32_t batch) {
  std::vector<std::uint64_t> samples(batch);
  std::iota(samples.begin(), samples.end(), std::uint64_t{0});
  // Kernels and their times do not depend on which samples a batch has.
  for (std::uint64_t& sample : samples) sample %= source.train_count();
  std::vector<float> words(batch * static_cast<std::size_t>(source.layout().words()));
  const Status filled = source.fill_train(0, samples, words);
  if (!filled.ok()) return filled.error();
  return words;
}

}  // namespace

Result<D2Cost> measure_d2_cost(const JobSpec& spec) {
  const auto model = JobModel::open(spec.model);
  if (!model) return model.error();
  const auto source = model->open_samples(spec);
  if (!source) return source.error();
  const Result<std::uint64_t> steps = total_steps(spec);
  if (!steps) return steps.error();
  const auto words = first_batch(**source, spec.batch_size);
  if (!words) return words.error();
  const auto graph = model->graph(spec, (*source)->layout());
  if (!graph) return graph.error();
  const CpuClass widest = supported_cpu_classes().back();
  const auto verdict = gpu::measure_d2(spec, *graph,
                                       {.cpu_class = widest,
                                        .total_steps = *steps,
                                        .bucket_bytes = gpu::kBucketBytes,
                                        .threads = spec.resources.threads},
                                       {words->data()}, monotonic_time);
  if (!verdict) return verdict.error();
  return D2Cost{device_type(widest).name, *verdict};
}

Status resolve_auto_level(JobSpec& spec, const StartPoint& start, Console& console) {
  if (spec.level != DeterminismLevel::kAuto) return {};
  // A job that continues keeps the level of its checkpoint, so all of its steps have the same
  // promise. Nothing is measured then.
  if (start.level) {
    spec.level = *start.level;
    console.err << "level auto is " << level_name(spec.level) << ", as in " << start.checkpoint
                << std::endl;
    return {};
  }
  const auto cost = measure_d2_cost(spec);
  if (!cost) return cost.error();
  spec.level = gpu::resolve_level(spec, cost->verdict);
  console.err << "level auto is " << level_name(spec.level) << ": D2 costs "
              << fixed(100 * cost->verdict.cost(), 1) << " % of a step on " << cost->device_type
              << ", accepted are " << fixed(100 * spec.auto_cost, 1) << " %" << std::endl;
  return {};
}

}  // namespace es::actors::esctl
