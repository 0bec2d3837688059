#include "actors/worker/device/evaluation_run.h"

#include <algorithm>
#include <string>

#include "proto/base/kill_point.h"
#include "store/dataset/job_sampler.h"
#include "store/metrics/metric.h"

namespace es::actors::worker {
namespace {

// The part of a mini-batch with which the metrics compare the outputs.
std::span<const float> target_words(const SampleLayout& layout, std::uint64_t batch,
                                    std::uint64_t count, std::span<const float> words,
                                    const store::MetricSink& sink) {
  const auto field = sink.target_field();
  if (!field) return {};
  return words.subspan(batch * static_cast<std::uint64_t>(layout.offset(*field)),
                       count * static_cast<std::uint64_t>(layout.fields[*field].words()));
}

// The rows of the loss of a sample in the program of a bucket, for each of those in the model. The
// engine gives the mean over the rows of a sample, and the mean loss is that of all rows.
double rows_for_each_row(const gpu::Engine& engine, std::uint32_t bucket) {
  return static_cast<double>(engine.graph(bucket).rows_per_sample) /
         static_cast<double>(engine.graph().rows_per_sample);
}

// Computes a mini-batch, whose samples are in `words`. `number` is that in the evaluation.
Status evaluate_batch(gpu::Engine& engine, const JobSpec& spec, const SampleLayout& layout,
                      const store::EvaluatedSamples& of, std::uint64_t number,
                      const std::vector<float>& words, float* free_slot, store::MetricSink& sink) {
  const gpu::Batch input{.words = words.data(), .program = of.bucket};
  auto batch = engine.evaluate(input, of.count, number, free_slot);
  if (batch) {
    const double rows = rows_for_each_row(engine, of.bucket);
    for (double& loss : batch->losses) loss *= rows;
    for (double& weight : batch->weights) weight *= rows;
    sink.add(of.begin, of.count, batch->outputs, batch->losses, batch->weights,
             target_words(layout, spec.batch_size, of.count, words, sink));
    return {};
  }
  // A lost device is not an error of the data, so it is excluded before a sample is blamed.
  ES_RETURN_IF_ERROR(engine.device_status());
  const auto wrong = engine.wrong_sample(input);
  if (!wrong) return failure(batch.error().message);
  return usage_error(
      store::evaluation_sample_name(spec.data, of.begin + std::min(*wrong, of.count - 1)) + ": " +
      batch.error().message);
}

}  // namespace

// One worker computes all samples in their order, so the sums of the metrics never depend on the
// placement.
Result<std::optional<std::vector<std::byte>>> evaluate(
    gpu::Engine& engine, const JobSpec& spec,
    const std::shared_ptr<const store::SampleSource>& samples, const store::CapturedInputs* inputs,
    Version version, float* free_slot, const std::function<bool()>& abandoned) {
  const auto sink = store::MetricSink::create(spec, samples, inputs);
  std::vector<float> words(spec.batch_size * static_cast<std::size_t>(samples->words_max()));
  const std::string where = "evaluation of step " + std::to_string(version) + ": ";
  const auto batches = store::job_evaluation(spec, samples->eval_count(), inputs);
  if (!batches) return usage_error(where + batches.error().message);
  for (std::uint64_t number = 0; number < batches->size(); ++number) {
    if (abandoned()) return std::optional<std::vector<std::byte>>();
    const store::EvaluatedSamples& batch = (*batches)[number];
    const store::SampleSource& padded = samples->of_bucket(batch.bucket);
    const auto batch_words = spec.batch_size * static_cast<std::size_t>(padded.layout().words());
    kill_point("evaluate");
    const Status filled = padded.fill_eval(batch.begin, batch.count, spec.batch_size,
                                           std::span(words).first(batch_words));
    if (!filled.ok()) return usage_error(where + filled.error().message);
    const Status done =
        evaluate_batch(engine, spec, padded.layout(), batch, number, words, free_slot, *sink);
    if (!done.ok()) return Error{done.error().kind, where + done.error().message};
  }
  sink->complete();
  return std::optional(sink->totals().encode());
}

}  // namespace es::actors::worker
