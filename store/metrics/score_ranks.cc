#include "store/metrics/score_ranks.h"

#include <algorithm>
#include <cstdint>

namespace es::store {
namespace {

// Rows with one score.
struct Tie {
  std::uint64_t positive = 0, negative = 0;
};

// The ties, from the lowest score to the highest.
std::vector<Tie> ties_of(std::vector<ScoredRow> rows) {
  std::ranges::sort(rows, {}, &ScoredRow::score);
  std::vector<Tie> ties;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || rows[i].score != rows[i - 1].score) ties.emplace_back();
    ++(rows[i].positive ? ties.back().positive : ties.back().negative);
  }
  return ties;
}

Tie sum_of(const std::vector<Tie>& ties) {
  Tie sum;
  for (const Tie& tie : ties) {
    sum.positive += tie.positive;
    sum.negative += tie.negative;
  }
  return sum;
}

}  // namespace

std::optional<double> roc_area(std::vector<ScoredRow> rows) {
  const std::vector<Tie> ties = ties_of(std::move(rows));
  const Tie all = sum_of(ties);
  if (all.positive == 0 || all.negative == 0) return std::nullopt;
  // Twice the number of pairs in the right order, so that a pair with equal scores counts one. 64
  // bits suffice for 2^31 rows of each kind.
  std::uint64_t halves = 0, below = 0;
  for (const Tie& tie : ties) {
    halves += tie.positive * (2 * below + tie.negative);
    below += tie.negative;
  }
  return static_cast<double>(halves) /
         (2.0 * static_cast<double>(all.positive) * static_cast<double>(all.negative));
}

std::optional<double> precision_area(std::vector<ScoredRow> rows) {
  const std::vector<Tie> ties = ties_of(std::move(rows));
  const Tie all = sum_of(ties);
  if (all.positive == 0) return std::nullopt;
  double area = 0;
  std::uint64_t hits = 0, seen = 0;
  for (std::size_t i = ties.size(); i-- > 0;) {
    hits += ties[i].positive;
    seen += ties[i].positive + ties[i].negative;
    area += static_cast<double>(ties[i].positive) * static_cast<double>(hits) /
            static_cast<double>(seen);
  }
  return area / static_cast<double>(all.positive);
}

}  // namespace es::store
