#include "store/metrics/metric.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "proto/base/check.h"
#include "store/fixed_math.h"
#include "store/metrics/average_precision.h"
#include "store/metrics/sinks.h"

namespace es::store {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const std::string kTop1 = "top1";

double ratio(double sum, double count) {
  // Not NaN, which stands for outputs that are not finite (summarise).
  return count == 0 ? 0.0 : sum / count;
}

bool all_finite(std::span<const std::span<const float>> output, double loss, double weight) {
  return std::isfinite(loss) && std::isfinite(weight) &&
         std::ranges::all_of(output, [](std::span<const float> values) {
           return std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
         });
}

// Totals without samples, and those that a value that is not finite has cleared, have no sums.
double sum_at(const MetricTotals& totals, std::size_t i) {
  return i < totals.sums.size() ? totals.sums[i] : 0.0;
}

std::vector<NamedMetric> answers_of(const MetricTotals& totals) {
  double exact = 0, f1 = 0;
  for (const ScoredAnswer& answer : totals.answers) {
    exact += answer.exact;
    f1 += answer.f1;
  }
  const auto questions = static_cast<double>(totals.answers.size());
  return {{"exact_match", ratio(exact, questions)}, {"f1", ratio(f1, questions)}};
}

// The metrics that the job names, with the sums and divisors of its evaluation.
std::vector<NamedMetric> named_figures(const JobSpec& spec, const MetricTotals& totals) {
  std::vector<NamedMetric> result;
  for (std::size_t i = 0; i < spec.metrics.size(); ++i) {
    const double count = sum_at(totals, 2 * i + 1);
    const bool undefined = totals.samples > 0 && count == 0.0;
    // top1 has one name everywhere; texts and JSON call it the accuracy.
    const std::string& name = spec.metrics[i] == "accuracy" ? kTop1 : spec.metrics[i];
    result.push_back({name, undefined ? kNan : ratio(sum_at(totals, 2 * i), count)});
  }
  return result;
}

std::vector<NamedMetric> figures(Task task, const MetricTotals& totals) {
  const auto samples = static_cast<double>(totals.samples);
  switch (task) {
    case Task::kClassification:
      return {{"top1", ratio(sum_at(totals, 0), samples)},
              {"top5", ratio(sum_at(totals, 1), samples)}};
    case Task::kRecommendation:
      return {{"hit_rate@10", ratio(sum_at(totals, 1), sum_at(totals, 0))},
              {"ndcg@10", ratio(sum_at(totals, 2), sum_at(totals, 0))}};
    case Task::kQuestionAnswering:
      return answers_of(totals);
    case Task::kDetection:
      return {{"map50", mean_average_precision(totals.boxes, totals.box_counts)}};
    case Task::kLanguage:
      return {};  // the perplexity follows from the loss
    case Task::kCaptured:
      if (totals.sums.empty()) return {};
      return {{"top1", ratio(totals.sums[0], samples)}};
  }
  return {};
}

}  // namespace

std::unique_ptr<MetricSink> MetricSink::create(const JobSpec& spec,
                                               std::shared_ptr<const SampleSource> source,
                                               const CapturedInputs* inputs) {
  if (!spec.metrics.empty()) {
    ES_CHECK(inputs != nullptr);
    return outputs_sink(spec, *inputs);
  }
  switch (task_of(spec.model)) {
    case Task::kClassification:
      return classification_sink(std::move(source));
    case Task::kRecommendation:
      return ranking_sink(std::move(source));
    case Task::kQuestionAnswering:
      return answer_sink(std::move(source));
    case Task::kDetection:
      return detection_sink(std::move(source), spec.model.classes);
    case Task::kLanguage:
    case Task::kCaptured:
      return captured_sink(std::move(source));
  }
  return nullptr;
}

void MetricSink::add(std::uint64_t begin, std::uint64_t count,
                     std::span<const std::span<const float>> outputs,
                     std::span<const double> losses, std::span<const double> weights,
                     std::span<const float> target) {
  // Samples come in order without a gap: windows of one question and items of one group follow each
  // other.
  ES_CHECK(totals_.samples == 0 || begin == next_);
  ES_CHECK(losses.size() == count && weights.size() == count);
  next_ = begin + count;
  std::vector<std::span<const float>> slices(outputs.size());
  for (std::uint64_t i = 0; i < count; ++i) {
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      ES_CHECK(outputs[o].size() % count == 0);
      const std::size_t size = outputs[o].size() / count;
      slices[o] = outputs[o].subspan(i * size, size);
    }
    ++totals_.samples;
    // One bad sample clears all totals, so that their bytes do not depend on how samples were
    // divided.
    if (!all_finite(slices, losses[i], weights[i])) {
      ++totals_.not_finite;
      totals_ = {.samples = totals_.samples, .not_finite = totals_.not_finite};
    }
    if (totals_.not_finite > 0) continue;
    target_ = target.subspan(i * (target.size() / count), target.size() / count);
    add_sample(begin + i, slices);
    totals_.loss_sum += losses[i];
    totals_.loss_weight += weights[i];
  }
}

namespace {

// Appends the loss and, for a language model, the perplexity: the main metric where there is no
// other one.
std::vector<NamedMetric> with_loss(std::vector<NamedMetric> result, Task task,
                                   const MetricTotals& totals) {
  const bool weightless = totals.samples > 0 && totals.loss_weight == 0.0;
  result.push_back({"loss", weightless ? kNan : ratio(totals.loss_sum, totals.loss_weight)});
  if (task == Task::kLanguage)
    result.insert(result.end() - 1,
                  {"perplexity", totals.samples == 0 ? 0.0 : fixed_exp(result.back().value)});
  if (totals.not_finite > 0)
    // NaN and not 0, so that a diverged model is not taken for one that is only bad.
    for (NamedMetric& metric : result) metric.value = kNan;
  return result;
}

}  // namespace

std::vector<NamedMetric> summarise(Task task, const MetricTotals& totals) {
  return with_loss(figures(task, totals), task, totals);
}

std::vector<NamedMetric> summarise(const JobSpec& spec, const MetricTotals& totals) {
  const Task task = task_of(spec.model);
  const bool of_tokens = task == Task::kCaptured && spec.data.kind == "tokens";
  const Task shown = of_tokens ? Task::kLanguage : task;
  return spec.metrics.empty() ? summarise(shown, totals)
                              : with_loss(named_figures(spec, totals), shown, totals);
}

}  // namespace es::store
