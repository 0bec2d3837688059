// LinearProgram in a build without GLPK.
#include "proto/base/check.h"
#include "scheduler/policy/common/linear_program.h"

namespace es::scheduler {

struct LinearProgram::Problem {};

bool LinearProgram::is_available() {
  return false;
}

LinearProgram::LinearProgram() {
  ES_CHECK_MSG(false, "a linear program in a build without GLPK");
}

LinearProgram::~LinearProgram() = default;

std::size_t LinearProgram::add_column(double, double) {
  return 0;
}

std::size_t LinearProgram::add_row(double) {
  return 0;
}

void LinearProgram::set_objective(std::size_t, double) {}

void LinearProgram::set_row(std::size_t, std::span<const Term>) {}

std::optional<std::vector<double>> LinearProgram::solve() {
  return std::nullopt;
}

std::optional<std::vector<double>> LinearProgram::solve_integer(double, int) {
  return std::nullopt;
}

}  // namespace es::scheduler
