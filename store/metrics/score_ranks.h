#pragma once
// Metrics of scores that divide rows into positive and negative ones. They depend on the order of
// the scores only, and equal scores count together, so the order of the rows decides nothing.
#include <optional>
#include <vector>

namespace es::store {

struct ScoredRow {
  double score = 0;  // not NaN
  bool positive = false;
};

// The area below the ROC curve: the share of the pairs of a positive and a negative row in which
// the positive one has the higher score; an equal score counts half. The pairs are counted with
// integers, which are divided once. Nothing: there are not rows of both kinds.
std::optional<double> roc_area(std::vector<ScoredRow> rows);

// The average precision: the sum over all thresholds of the growth of the recall times the
// precision there, without interpolation. Nothing: there is no positive row.
std::optional<double> precision_area(std::vector<ScoredRow> rows);

}  // namespace es::store
