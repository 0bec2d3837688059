#include "store/metrics/outputs_comparison.h"

#include <vector>

namespace es::store {
namespace {

using Extents = std::vector<std::int64_t>;

std::size_t elements(const Extents& extents) {
  std::size_t count = 1;
  for (const std::int64_t extent : extents) count *= static_cast<std::size_t>(extent);
  return count;
}

Extents without_first(const Extents& extents) {
  return {extents.begin() + 1, extents.end()};
}

Extents without_last(const Extents& extents) {
  return {extents.begin(), extents.end() - 1};
}

const char* classes_need(const MetricChoice& metric, std::size_t classes) {
  switch (metric.kind) {
    case MetricKind::kTop:
    case MetricKind::kF1:
      return nullptr;
    case MetricKind::kF1Binary:
      return classes == 2 ? nullptr : "a model with two classes";
    case MetricKind::kAuc:
    case MetricKind::kAveragePrecision:
      return classes <= kScoreColumnsMax ? nullptr : "a model with at most 1000 classes";
    case MetricKind::kMse:
    case MetricKind::kMae:
      return "a model with as many outputs as its target has elements";
  }
  return nullptr;
}

const char* numbers_need(const MetricChoice& metric, const OutputsComparison& comparison) {
  const bool measures = metric.kind == MetricKind::kMse || metric.kind == MetricKind::kMae;
  if (!measures && !comparison.decides)
    return "a model that predicts classes, or whose loss is a binary cross entropy";
  const std::size_t rows = comparison.rows;
  switch (metric.kind) {
    case MetricKind::kTop:
      return metric.k == 1 ? nullptr : "a model that predicts classes";
    case MetricKind::kF1Binary:
      return rows == 1 ? nullptr : "a model with one output for a sample";
    case MetricKind::kF1:
    case MetricKind::kAuc:
    case MetricKind::kAveragePrecision:
      return rows <= kScoreColumnsMax ? nullptr : "a model with at most 1000 outputs for a sample";
    case MetricKind::kMse:
    case MetricKind::kMae:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

std::optional<OutputsComparison> outputs_comparison(const CapturedInputs& inputs) {
  if (!inputs.target) return std::nullopt;
  const CapturedInput& target = inputs.inputs[inputs.target->input];
  const Extents& output = inputs.target->output;
  const std::size_t rows = elements(target.shape);
  const bool has_axis = target.type == ValueType::kI32 && !output.empty();
  // Sequences are the usual case, so the last axis has the classes where both would fit.
  if (has_axis && output.back() > 1 && without_last(output) == target.shape)
    return OutputsComparison{.form = OutputsForm::kClasses,
                             .rows = rows,
                             .classes = static_cast<std::size_t>(output.back())};
  if (has_axis && output.front() > 1 && without_first(output) == target.shape)
    return OutputsComparison{.form = OutputsForm::kClasses,
                             .rows = rows,
                             .classes = static_cast<std::size_t>(output.front()),
                             .classes_first = true};
  if (elements(output) != rows) return std::nullopt;
  return OutputsComparison{.form = OutputsForm::kNumbers,
                           .rows = rows,
                           .decides = inputs.target->decides || target.type != ValueType::kF32};
}

const char* metric_needs(const MetricChoice& metric, const OutputsComparison& comparison) {
  return comparison.form == OutputsForm::kClasses ? classes_need(metric, comparison.classes)
                                                  : numbers_need(metric, comparison);
}

}  // namespace es::store
