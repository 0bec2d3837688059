#include "scheduler/policy/common/linear_program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace es::scheduler {
namespace {

// A number so close to a whole one is one.
constexpr double kWhole = 1e-6;

// One call of solve_integer(): branch and bound.
class IntegerSearch {
 public:
  IntegerSearch(std::span<const LinearColumn> columns, std::span<const double> row_uppers,
                double gap)
      : columns_(columns),
        row_uppers_(row_uppers),
        gap_(gap),
        simplex_(columns, row_uppers),
        best_(columns.size(), 0) {
    open_.push_back({std::numeric_limits<double>::infinity(), {}});
  }

  // The node with the best bound first; of equal ones the newest.
  std::vector<double> run(int nodes_max) {
    for (; nodes_max > 0 && !open_.empty(); --nodes_max) {
      auto next = open_.begin();
      for (auto node = open_.begin(); node != open_.end(); ++node)
        if (node->bound >= next->bound) next = node;
      const Node node = std::move(*next);
      open_.erase(next);
      if (!is_better(node.bound)) break;
      visit(node);
    }
    return best_;
  }

 private:
  struct Bounds {
    std::size_t column;
    double lower, upper;
  };
  struct Node {
    double bound;                // no x of the node has a larger objective
    std::vector<Bounds> bounds;  // the last one of a column holds
  };

  bool is_better(double objective) const {
    return objective > best_objective_ + gap_ * std::abs(best_objective_);
  }

  double objective_of(const std::vector<double>& x) const {
    double sum = 0;
    for (std::size_t c = 0; c < x.size(); ++c) sum += columns_[c].objective * x[c];
    return sum;
  }

  void visit(const Node& node) {
    for (std::size_t c = 0; c < columns_.size(); ++c) simplex_.set_bounds(c, 0, columns_[c].upper);
    for (const Bounds& b : node.bounds) simplex_.set_bounds(b.column, b.lower, b.upper);
    const auto x = simplex_.solve();
    if (!x) return;
    const double bound = objective_of(*x);
    if (!is_better(bound)) return;
    const std::vector<std::size_t> fractions = fractions_of(*x);
    round(*x, fractions);
    if (!fractions.empty()) branch(node, *x, fractions.front(), bound);
  }

  // The columns that are not whole, those nearest to a half first.
  static std::vector<std::size_t> fractions_of(const std::vector<double>& x) {
    std::vector<std::size_t> fractions;
    const auto distance = [&](std::size_t c) { return std::abs(x[c] - std::round(x[c])); };
    for (std::size_t c = 0; c < x.size(); ++c)
      if (distance(c) > kWhole) fractions.push_back(c);
    std::stable_sort(fractions.begin(), fractions.end(),
                     [&](std::size_t a, std::size_t b) { return distance(a) > distance(b); });
    return fractions;
  }

  void branch(const Node& node, const std::vector<double>& x, std::size_t column, double bound) {
    Bounds below{column, 0, std::floor(x[column])};
    Bounds above{column, below.upper + 1, columns_[column].upper};
    for (const Bounds& b : node.bounds) {
      if (b.column != column) continue;
      below.lower = b.lower;
      above.upper = b.upper;
    }
    for (const Bounds& b : {below, above}) {
      if (b.lower > b.upper) continue;
      Node child{bound, node.bounds};
      child.bounds.push_back(b);
      open_.push_back(std::move(child));
    }
  }

  // Rounds the fractions down, and then each of them up if all rows allow it.
  void round(const std::vector<double>& x, std::span<const std::size_t> fractions) {
    std::vector<double> whole, left(row_uppers_.begin(), row_uppers_.end());
    const auto use = [&](std::size_t column, double times) {
      for (const auto& [row, factor] : columns_[column].entries) left[row] -= times * factor;
    };
    const auto is_allowed = [&] {
      return std::all_of(left.begin(), left.end(), [](double l) { return l > -kWhole; });
    };
    for (std::size_t c = 0; c < x.size(); ++c) {
      whole.push_back(std::floor(x[c] + kWhole));
      use(c, whole[c]);
    }
    if (!is_allowed()) return;
    for (const std::size_t c : fractions) {
      if (whole[c] + 1 > columns_[c].upper) continue;
      use(c, 1);
      if (is_allowed())
        ++whole[c];
      else
        use(c, -1);
    }
    const double objective = objective_of(whole);
    if (objective <= best_objective_) return;
    best_objective_ = objective;
    best_ = std::move(whole);
  }

  const std::span<const LinearColumn> columns_;
  const std::span<const double> row_uppers_;
  const double gap_;
  DualSimplex simplex_;
  std::vector<Node> open_;
  std::vector<double> best_;
  double best_objective_ = 0;
};

}  // namespace

std::size_t LinearProgram::add_column(double objective, double upper) {
  columns_.push_back({.objective = objective, .upper = upper});
  return columns_.size() - 1;
}

void LinearProgram::add_row(double upper, std::span<const Term> terms) {
  for (const Term& term : terms)
    columns_[term.column].entries.push_back({row_uppers_.size(), term.factor});
  row_uppers_.push_back(upper);
}

std::vector<double> LinearProgram::solve() const {
  DualSimplex simplex(columns_, row_uppers_);
  return simplex.solve().value_or(std::vector<double>(columns_.size(), 0));
}

std::vector<double> LinearProgram::solve_integer(double gap, int nodes_max) const {
  return IntegerSearch(columns_, row_uppers_, gap).run(nodes_max);
}

}  // namespace es::scheduler
