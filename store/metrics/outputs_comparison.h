#pragma once
// How the first output of a model file is compared with its target (CapturedInputs::target).
#include <cstdint>
#include <optional>

#include "proto/base/metric_kind.h"
#include "store/dataset/captured_inputs.h"

namespace es::store {

// kClasses: the target has integers, and the output has for each of them the logits of all classes,
//   on the last axis or on the first one of a sample.
// kNumbers: the output has as many elements as the target.
enum class OutputsForm { kClasses, kNumbers };

struct OutputsComparison {
  OutputsForm form = OutputsForm::kNumbers;
  std::size_t rows = 1;        // elements of the target of one sample
  std::size_t classes = 1;     // kClasses
  bool classes_first = false;  // kClasses: the classes are the first axis
  bool decides = true;         // kNumbers: the target says yes or no
};

// Nothing: the output and the target have other shapes, or there is no target.
std::optional<OutputsComparison> outputs_comparison(const CapturedInputs& inputs);

// A metric of scores keeps every score of an evaluation, so the columns are limited.
inline constexpr std::size_t kScoreColumnsMax = 1000;

// Whether the metric can be computed; nullptr, or what the model would need.
const char* metric_needs(const MetricChoice& metric, const OutputsComparison& comparison);

}  // namespace es::store
