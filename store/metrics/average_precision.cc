#include "store/metrics/average_precision.h"

#include <algorithm>

#include "proto/base/check.h"

namespace es::store {

double average_precision(std::vector<ScoredBox> boxes, std::uint64_t count) {
  ES_CHECK(count > 0);
  std::ranges::stable_sort(
      boxes, [](const ScoredBox& a, const ScoredBox& b) { return a.score > b.score; });
  // Precision at each true box found, where recall grows by 1 / count.
  std::vector<double> precision;
  std::uint64_t hits = 0;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (!boxes[i].hit) continue;
    ++hits;
    precision.push_back(static_cast<double>(hits) / static_cast<double>(i + 1));
  }
  double area = 0, best = 0;
  // From the right: the precision at a recall is the best one at this or any higher recall.
  for (std::size_t i = precision.size(); i > 0; --i) {
    best = std::max(best, precision[i - 1]);
    area += best;
  }
  return area / static_cast<double>(count);
}

double mean_average_precision(std::span<const ScoredBox> boxes,
                              std::span<const std::uint64_t> counts) {
  std::vector<std::vector<ScoredBox>> by_class(counts.size());
  for (const ScoredBox& box : boxes)
    // A negative label becomes a very large number and is left out too.
    if (static_cast<std::size_t>(box.label) < counts.size()) by_class[box.label].push_back(box);
  double sum = 0;
  std::uint64_t classes = 0;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    // A class without a true box has no recall, so it does not count in the mean.
    if (counts[c] == 0) continue;
    sum += average_precision(std::move(by_class[c]), counts[c]);
    ++classes;
  }
  return classes == 0 ? 0.0 : sum / static_cast<double>(classes);
}

}  // namespace es::store
