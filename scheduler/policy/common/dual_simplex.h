#pragma once
// DualSimplex: the dual simplex method for
//
//   maximise  sum_c objective_c * x_c
//   where     sum_c a_rc * x_c <= upper_r   for each row r
//             lower_c <= x_c <= upper_c     for each column c, both finite
//
// A row has a slack, the variable that makes it an equation. The variables of a basis, one for each
// row, follow from the others, and each of the others is at one of its bounds. The method begins
// with the basis of the slacks. There each column is at the bound that its objective prefers, which
// may break rows. Each step makes a broken bound hold and loses as little as possible. So there is
// no first phase, and after a change of bounds the method goes on from the last basis.
//
// The inverse of the basis is dense (8 bytes for each pair of rows), and a step touches only those
// of its numbers that are not zero. In programs whose rows have few columns in common, most are.
//
// The same calls give the same bits: there is no clock, no random number, and one order of all
// operations. One caller at a time.
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace es::scheduler {

struct LinearColumn {
  struct Entry {
    std::size_t row = 0;
    double factor = 0;
  };
  double objective = 0, upper = 0;  // the lower bound is 0 at first
  std::vector<Entry> entries;       // each row at most once
};

class DualSimplex {
 public:
  // Both spans must outlive it.
  DualSimplex(std::span<const LinearColumn> columns, std::span<const double> row_uppers);

  // REQUIRES: lower <= upper, both finite.
  void set_bounds(std::size_t column, double lower, double upper);

  // The best x. nullopt: no x keeps all bounds, or rounding errors hide it, which happens only if
  // numbers differ by too many orders of magnitude.
  std::optional<std::vector<double>> solve();

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct Variable {
    double cost = 0, lower = 0, upper = 0;
    double gain = 0;               // of the objective, if it rises by 1; 0 in the basis
    double factor = 0;             // in the equation of the variable that leaves the basis
    std::size_t position = kNone;  // in the basis
    bool at_upper = false;
  };
  // A step: the variable at `position` of the basis goes to `bound`.
  struct Leaving {
    std::size_t position;
    double bound;
  };

  double* inverse_row(std::size_t position) { return &inverse_[position * rows_]; }
  double value_of(const Variable& v) const;
  template <class Function>
  void for_entries(std::size_t variable, const Function& function) const;

  void begin_with_slacks();
  void place_others();
  void compute_values();
  bool improve();
  std::optional<Leaving> choose_leaving() const;
  void compute_factors(std::size_t position);
  std::size_t choose_entering(bool rises) const;
  void compute_column(std::size_t variable);
  void step(const Leaving& leaving, std::size_t entering);
  void update_inverse(std::size_t position);
  bool is_exact() const;
  bool rebuild();
  void compute_gains();

  const std::span<const LinearColumn> columns_;
  const std::span<const double> row_uppers_;
  const std::size_t rows_;
  std::vector<Variable> variables_;  // the columns, then the slacks
  std::vector<std::size_t> basis_;   // variables by position
  std::vector<double> values_;       // theirs
  std::vector<double> weights_;      // theirs: a bound that is broken by w counts as w^2 / weight
  std::vector<double> inverse_;      // by position and row
  std::vector<double> column_;       // of the variable that enters, by position
};

}  // namespace es::scheduler
