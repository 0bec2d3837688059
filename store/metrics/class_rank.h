#pragma once
#include <cstddef>
#include <span>

namespace es::store {

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
