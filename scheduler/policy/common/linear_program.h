#pragma once
// LinearProgram: a linear or integer program, which is solved by GLPK. A build without GLPK
// (`meson setup -Dglpk=disabled`) solves none.
//
//   maximise  sum_c objective_c * x_c
//   where     sum_c a_rc * x_c <= upper_r   for each row r
//             0 <= x_c <= upper_c           for each column c
//
// The same calls give the same answer: the solver starts from the same basis each time, has no
// limit of time, and is told how many nodes it may search. One caller at a time.
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace es::scheduler {

class LinearProgram {
 public:
  // False in a build without GLPK. Then no program may be made.
  static bool is_available();

  LinearProgram();
  ~LinearProgram();
  LinearProgram(const LinearProgram&) = delete;
  LinearProgram& operator=(const LinearProgram&) = delete;

  struct Term {
    std::size_t column = 0;
    double factor = 0;
  };

  // Both return the index of what was added.
  std::size_t add_column(double objective, double upper);
  std::size_t add_row(double upper);
  void set_objective(std::size_t column, double objective);
  // Replaces the row. REQUIRES: each column at most once.
  void set_row(std::size_t row, std::span<const Term> terms);

  // The best x. A second call after changes starts from the last basis. nullopt: the solver has
  // found none, which happens only if numbers differ by too many orders of magnitude.
  std::optional<std::vector<double>> solve();
  // The best x of whole numbers. The search ends when the best one that it has found is at most
  // `gap` (relative) below the bound, or after `nodes_max` nodes. nullopt: it has found none.
  std::optional<std::vector<double>> solve_integer(double gap, int nodes_max);

 private:
  struct Problem;
  std::unique_ptr<Problem> problem_;
};

}  // namespace es::scheduler
