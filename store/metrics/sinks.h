#pragma once
// The metric sinks of the tasks. MetricSink::create chooses among them.
#include <cstddef>
#include <memory>
#include <span>

#include "store/metrics/metric.h"

namespace es::store {

using SourcePointer = std::shared_ptr<const SampleSource>;

// Output: logits [classes]. A sample counts as right among the first k if fewer than k classes are
// better than the true one. Of equal logits the lower class is better.
std::unique_ptr<MetricSink> classification_sink(SourcePointer source);

// The first output has the logits [classes] if the model predicts labels; otherwise only the loss
// counts. Further outputs are not looked at.
std::unique_ptr<MetricSink> captured_sink(SourcePointer source);

// The metrics that the job names (outputs_sink.cc).
std::unique_ptr<MetricSink> outputs_sink(const JobSpec& spec, const CapturedInputs& inputs);

// Output: a score. Sample 0 of a group is the rated item. The rank is the number of other items
// that are not below it. A rank < 10 is a hit with the gain 1 / log2(rank + 2).
std::unique_ptr<MetricSink> ranking_sink(SourcePointer source);

// Output: [2][tokens], the logits of the first and of the last token of the answer.
std::unique_ptr<MetricSink> answer_sink(SourcePointer source);

// Outputs: three scales of [h][w][3 * (5 + classes)], as the YOLO loss reads them.
std::unique_ptr<MetricSink> detection_sink(SourcePointer source, std::uint32_t classes);

// Number of classes that are better than class `label`. Of equal logits the lower class is better.
// REQUIRES: no logit is NaN (MetricSink::add); label < logits.size().
inline std::size_t rank_of(std::span<const float> logits, std::size_t label) {
  std::size_t rank = 0;
  for (std::size_t j = 0; j < logits.size(); ++j) {
    if (j == label) continue;
    const bool worse = j < label ? logits[j] < logits[label] : logits[j] <= logits[label];
    rank += !worse;
  }
  return rank;
}

}  // namespace es::store
