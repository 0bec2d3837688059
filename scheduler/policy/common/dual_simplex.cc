#include "scheduler/policy/common/dual_simplex.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace es::scheduler {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// By how much a bound may be broken, relative to itself if it is more than 1.
constexpr double kBroken = 1e-9;
// A smaller number is a rounding error: no divisor.
constexpr double kSmallest = 1e-9;
// Objectives, whose largest is 1, become larger by up to these parts of themselves and of 1, each
// by another one. Without that, steps that lose nothing could go in a circle. So of equally good x
// a large one is taken.
constexpr double kOwnPart = 1e-9, kCommonPart = 1e-11;
// Gains that differ by less are equal. Out of equal steps that with the largest divisor is taken.
constexpr double kEqual = 1e-13;
constexpr std::size_t kStepsPerVariable = 50;
constexpr int kRebuilds = 3;

// In (0, 1), evenly spread and different for each index.
double spread(std::size_t index) {
  constexpr double kGoldenRatio = 0.6180339887498949;
  const double x = static_cast<double>(index + 1) * kGoldenRatio;
  return x - std::floor(x);
}

double tolerance(double bound) {
  return kBroken * std::max(1.0, std::abs(bound));
}

}  // namespace

DualSimplex::DualSimplex(std::span<const LinearColumn> columns, std::span<const double> row_uppers)
    : columns_(columns), row_uppers_(row_uppers), rows_(row_uppers.size()) {
  double most = 0;
  for (const LinearColumn& column : columns) most = std::max(most, std::abs(column.objective));
  if (most == 0) most = 1;
  for (const LinearColumn& column : columns) {
    const double cost = column.objective / most;
    const double more = spread(variables_.size()) * (kOwnPart * std::abs(cost) + kCommonPart);
    variables_.push_back({.cost = cost + more, .upper = column.upper});
  }
  variables_.resize(columns.size() + rows_, {.upper = kInfinity});
  begin_with_slacks();
  compute_gains();
}

void DualSimplex::set_bounds(std::size_t column, double lower, double upper) {
  variables_[column].lower = lower;
  variables_[column].upper = upper;
}

std::optional<std::vector<double>> DualSimplex::solve() {
  for (int i = 0; i <= kRebuilds; ++i) {
    place_others();
    compute_values();
    if (!improve()) return std::nullopt;
    compute_values();
    if (is_exact()) {
      std::vector<double> x;
      for (std::size_t c = 0; c < columns_.size(); ++c)
        x.push_back(std::clamp(value_of(variables_[c]), variables_[c].lower, variables_[c].upper));
      return x;
    }
    if (!rebuild()) return std::nullopt;
  }
  return std::nullopt;
}

double DualSimplex::value_of(const Variable& v) const {
  if (v.position != kNone) return values_[v.position];
  return v.at_upper ? v.upper : v.lower;
}

template <class Function>
void DualSimplex::for_entries(std::size_t variable, const Function& function) const {
  if (variable >= columns_.size()) return function(variable - columns_.size(), 1.0);
  for (const auto& [row, factor] : columns_[variable].entries) function(row, factor);
}

void DualSimplex::begin_with_slacks() {
  basis_.clear();
  inverse_.assign(rows_ * rows_, 0);
  for (Variable& v : variables_) v.position = kNone;
  for (std::size_t r = 0; r < rows_; ++r) {
    basis_.push_back(columns_.size() + r);
    variables_[basis_[r]].position = r;
    inverse_row(r)[r] = 1;
  }
  weights_.assign(rows_, 1);
  values_.assign(rows_, 0);
  column_.assign(rows_, 0);
}

// Each variable outside of the basis goes to the bound that its gain prefers.
void DualSimplex::place_others() {
  for (Variable& v : variables_)
    if (v.position == kNone && v.gain != 0) v.at_upper = v.gain > 0 && v.upper < kInfinity;
}

void DualSimplex::compute_values() {
  std::vector<double> left(row_uppers_.begin(), row_uppers_.end());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const double value = value_of(variables_[i]);
    if (variables_[i].position != kNone || value == 0) continue;
    for_entries(i, [&](std::size_t row, double factor) { left[row] -= factor * value; });
  }
  for (std::size_t p = 0; p < rows_; ++p) {
    values_[p] = 0;
    for (std::size_t r = 0; r < rows_; ++r) values_[p] += inverse_row(p)[r] * left[r];
  }
}

// Until no bound is broken. False: there is no such x, or the steps do not end.
bool DualSimplex::improve() {
  for (std::size_t left = kStepsPerVariable * variables_.size(); left > 0; --left) {
    const std::optional<Leaving> leaving = choose_leaving();
    if (!leaving) return true;
    compute_factors(leaving->position);
    const std::size_t entering = choose_entering(values_[leaving->position] < leaving->bound);
    if (entering == kNone) return false;
    step(*leaving, entering);
  }
  return false;
}

std::optional<DualSimplex::Leaving> DualSimplex::choose_leaving() const {
  std::optional<Leaving> leaving;
  double most = 0;
  for (std::size_t p = 0; p < rows_; ++p) {
    const Variable& v = variables_[basis_[p]];
    const double bound = std::clamp(values_[p], v.lower, v.upper);
    const double broken = std::abs(values_[p] - bound);
    if (broken <= tolerance(bound) || broken * broken <= most * weights_[p]) continue;
    most = broken * broken / weights_[p];
    leaving = {p, bound};
  }
  return leaving;
}

// The variable at the position is a constant minus the sum of factor * variable over the others.
void DualSimplex::compute_factors(std::size_t position) {
  const double* const inverse = inverse_row(position);
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    double sum = 0;
    if (variables_[i].position == kNone)
      for_entries(i, [&](std::size_t row, double factor) { sum += inverse[row] * factor; });
    variables_[i].factor = sum;
  }
}

// The variable whose change loses least, where the one that leaves the basis rises or falls.
std::size_t DualSimplex::choose_entering(bool rises) const {
  const auto divisor = [&](const Variable& v) {
    // 0 for a variable that can only move the other way, or not at all.
    const bool is_right = rises == (v.at_upper ? v.factor > 0 : v.factor < 0);
    const bool can_move = v.position == kNone && v.lower < v.upper;
    return can_move && is_right && std::abs(v.factor) > kSmallest ? std::abs(v.factor) : 0.0;
  };
  const auto loss = [](const Variable& v) { return std::max(0.0, v.at_upper ? v.gain : -v.gain); };
  double least = kInfinity;
  for (const Variable& v : variables_)
    if (const double by = divisor(v); by > 0) least = std::min(least, (loss(v) + kEqual) / by);
  std::size_t entering = kNone;
  double largest = 0;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const double by = divisor(variables_[i]);
    if (by <= largest || loss(variables_[i]) > least * by) continue;
    largest = by;
    entering = i;
  }
  return entering;
}

void DualSimplex::compute_column(std::size_t variable) {
  for (std::size_t p = 0; p < rows_; ++p) {
    const double* const inverse = inverse_row(p);
    double sum = 0;
    for_entries(variable, [&](std::size_t row, double factor) { sum += inverse[row] * factor; });
    column_[p] = sum;
  }
}

void DualSimplex::step(const Leaving& leaving, std::size_t entering) {
  const std::size_t at = leaving.position;
  Variable& in = variables_[entering];
  Variable& out = variables_[basis_[at]];
  const double price = in.gain / in.factor;
  for (Variable& v : variables_) v.gain -= price * v.factor;
  in.gain = 0;
  out.gain = -price;
  compute_column(entering);
  const double pivot = column_[at], change = (values_[at] - leaving.bound) / pivot;
  const double weight = weights_[at];
  for (std::size_t p = 0; p < rows_; ++p) {
    const double part = column_[p] / pivot;
    values_[p] -= column_[p] * change;
    weights_[p] = std::max(weights_[p], part * part * weight);
  }
  weights_[at] = std::max(1.0, weight / (pivot * pivot));
  values_[at] = value_of(in) + change;
  update_inverse(at);
  out.position = kNone;
  out.at_upper = leaving.bound == out.upper && out.lower < out.upper;
  in.position = at;
  basis_[at] = entering;
}

// The inverse, after column_ has become the one at the position.
void DualSimplex::update_inverse(std::size_t position) {
  double* const changed = inverse_row(position);
  std::vector<std::size_t> used;
  for (std::size_t r = 0; r < rows_; ++r) {
    if (changed[r] == 0) continue;
    changed[r] /= column_[position];
    used.push_back(r);
  }
  for (std::size_t p = 0; p < rows_; ++p) {
    if (p == position || column_[p] == 0) continue;
    double* const inverse = inverse_row(p);
    for (const std::size_t r : used) inverse[r] -= column_[p] * changed[r];
  }
}

// True if the values solve the equations and keep the bounds.
bool DualSimplex::is_exact() const {
  std::vector<double> left(row_uppers_.begin(), row_uppers_.end());
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const double value = value_of(variables_[i]);
    const double kept = std::clamp(value, variables_[i].lower, variables_[i].upper);
    if (!(std::abs(value - kept) <= tolerance(kept))) return false;
    for_entries(i, [&](std::size_t row, double factor) { left[row] -= factor * value; });
  }
  for (std::size_t r = 0; r < rows_; ++r)
    if (std::abs(left[r]) > tolerance(row_uppers_[r])) return false;
  return true;
}

// Computes the inverse of the basis anew. False: it has none.
bool DualSimplex::rebuild() {
  const std::vector<std::size_t> wanted = basis_;
  std::vector<bool> stays(variables_.size(), false);
  for (const std::size_t i : wanted) stays[i] = true;
  begin_with_slacks();
  for (const std::size_t i : wanted) {
    if (i >= columns_.size()) continue;
    compute_column(i);
    std::size_t at = kNone;
    for (std::size_t p = 0; p < rows_; ++p)
      if (!stays[basis_[p]] && (at == kNone || std::abs(column_[p]) > std::abs(column_[at])))
        at = p;
    if (at == kNone || std::abs(column_[at]) < kSmallest) return false;
    update_inverse(at);
    variables_[basis_[at]].position = kNone;
    variables_[i].position = at;
    basis_[at] = i;
  }
  compute_gains();
  return true;
}

void DualSimplex::compute_gains() {
  std::vector<double> prices(rows_, 0);  // by row
  for (std::size_t p = 0; p < rows_; ++p)
    if (const double cost = variables_[basis_[p]].cost; cost != 0)
      for (std::size_t r = 0; r < rows_; ++r) prices[r] += cost * inverse_row(p)[r];
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    Variable& v = variables_[i];
    v.gain = v.position == kNone ? v.cost : 0;
    if (v.position != kNone) continue;
    for_entries(i, [&](std::size_t row, double factor) { v.gain -= prices[row] * factor; });
  }
}

}  // namespace es::scheduler
