#include "actors/worker/device/evaluation_run.h"

#include <algorithm>
#include <string>

#include "proto/base/kill_point.h"
#include "store/metrics/metric.h"

namespace es::actors::worker {
namespace {

// The part of a mini-batch with which the metrics compare the outputs.
std::span<const float> target_words(const SampleLayout& layout, std::uint64_t count,
                                    std::span<const float> words, const store::MetricSink& sink) {
  const auto field = sink.target_field();
  if (!field) return {};
  const std::uint64_t batch = words.size() / static_cast<std::uint64_t>(layout.words());
  return words.subspan(batch * static_cast<std::uint64_t>(layout.offset(*field)),
                       count * static_cast<std::uint64_t>(layout.fields[*field].words()));
}

// Computes the samples [begin, begin + count), the first of which are in `words`.
Status evaluate_batch(gpu::Engine& engine, const JobSpec& spec, const SampleLayout& layout,
                      std::uint64_t begin, std::uint64_t count, const std::vector<float>& words,
                      float* free_slot, store::MetricSink& sink) {
  const auto batch = engine.evaluate({words.data()}, count, begin / spec.batch_size, free_slot);
  if (batch) {
    sink.add(begin, count, batch->outputs, batch->losses, batch->weights,
             target_words(layout, count, words, sink));
    return {};
  }
  // A lost device is not an error of the data, so it is excluded before a sample is blamed.
  ES_RETURN_IF_ERROR(engine.device_status());
  const auto wrong = engine.wrong_sample({words.data()});
  if (!wrong) return failure(batch.error().message);
  return usage_error(store::evaluation_sample_name(spec.data, begin + std::min(*wrong, count - 1)) +
                     ": " + batch.error().message);
}

}  // namespace

// One worker computes all samples in their order, so the sums of the metrics never depend on the
// placement.
Result<std::optional<std::vector<std::byte>>> evaluate(
    gpu::Engine& engine, const JobSpec& spec,
    const std::shared_ptr<const store::SampleSource>& samples, const store::CapturedInputs* inputs,
    Version version, float* free_slot, const std::function<bool()>& abandoned) {
  const auto sink = store::MetricSink::create(spec, samples, inputs);
  std::vector<float> words(spec.batch_size * static_cast<std::size_t>(samples->layout().words()));
  const std::string where = "evaluation of step " + std::to_string(version) + ": ";
  for (std::uint64_t begin = 0; begin < samples->eval_count(); begin += spec.batch_size) {
    if (abandoned()) return std::optional<std::vector<std::byte>>();
    const std::uint64_t count =
        std::min<std::uint64_t>(spec.batch_size, samples->eval_count() - begin);
    kill_point("evaluate");
    const Status filled = samples->fill_eval(begin, count, spec.batch_size, words);
    if (!filled.ok()) return usage_error(where + filled.error().message);
    const Status done =
        evaluate_batch(engine, spec, samples->layout(), begin, count, words, free_slot, *sink);
    if (!done.ok()) return Error{done.error().kind, where + done.error().message};
  }
  sink->complete();
  return std::optional(sink->totals().encode());
}

}  // namespace es::actors::worker
