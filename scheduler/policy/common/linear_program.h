#pragma once
// LinearProgram: a linear or integer program.
//
//   maximise  sum_c objective_c * x_c
//   where     sum_c a_rc * x_c <= upper_r   for each row r
//             0 <= x_c <= upper_c           for each column c
//
// All upper bounds are finite and at least 0, so x = 0 keeps them. The same calls give the same
// bits: the search has no limit of time, and is told how many nodes it may visit. One caller at a
// time.
#include <cstddef>
#include <span>
#include <vector>

#include "scheduler/policy/common/dual_simplex.h"

namespace es::scheduler {

class LinearProgram {
 public:
  struct Term {
    std::size_t column = 0;
    double factor = 0;
  };

  // Returns the index of the column.
  std::size_t add_column(double objective, double upper);
  // REQUIRES: each column at most once.
  void add_row(double upper, std::span<const Term> terms);

  // The best x. It is 0 if rounding errors hide the best one, which happens only if numbers differ
  // by too many orders of magnitude.
  std::vector<double> solve() const;
  // The best x of whole numbers. The search ends when the best one that it has found is at most
  // `gap` (relative) below the bound, or after `nodes_max` nodes.
  std::vector<double> solve_integer(double gap, int nodes_max) const;

 private:
  std::vector<LinearColumn> columns_;
  std::vector<double> row_uppers_;
};

}  // namespace es::scheduler
