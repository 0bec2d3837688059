#include "scheduler/policy/common/linear_program.h"

#include <glpk.h>

#include <cmath>

namespace es::scheduler {

struct LinearProgram::Problem {
  glp_prob* const glpk = glp_create_prob();
  Problem() = default;
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;
  ~Problem() { glp_delete_prob(glpk); }
};

namespace {

// GLPK counts from 1.
int glpk_index(std::size_t index) {
  return static_cast<int>(index) + 1;
}

struct Search {
  int nodes_left = 0;
};

// GLPK calls it at every step of the search.
void count_node(glp_tree* tree, void* info) {
  auto& search = *static_cast<Search*>(info);
  if (glp_ios_reason(tree) == GLP_ISELECT && --search.nodes_left < 0) glp_ios_terminate(tree);
}

}  // namespace

bool LinearProgram::is_available() {
  return true;
}

LinearProgram::LinearProgram() : problem_(std::make_unique<Problem>()) {
  glp_set_obj_dir(problem_->glpk, GLP_MAX);
}

LinearProgram::~LinearProgram() = default;

std::size_t LinearProgram::add_column(double objective, double upper) {
  const int column = glp_add_cols(problem_->glpk, 1);
  glp_set_col_bnds(problem_->glpk, column, upper > 0 ? GLP_DB : GLP_FX, 0, upper);
  glp_set_obj_coef(problem_->glpk, column, objective);
  return static_cast<std::size_t>(column - 1);
}

std::size_t LinearProgram::add_row(double upper) {
  const int row = glp_add_rows(problem_->glpk, 1);
  glp_set_row_bnds(problem_->glpk, row, GLP_UP, 0, upper);
  return static_cast<std::size_t>(row - 1);
}

void LinearProgram::set_objective(std::size_t column, double objective) {
  glp_set_obj_coef(problem_->glpk, glpk_index(column), objective);
}

void LinearProgram::set_row(std::size_t row, std::span<const Term> terms) {
  std::vector<int> columns{0};  // entry 0 is not used
  std::vector<double> factors{0};
  for (const Term& term : terms) {
    columns.push_back(glpk_index(term.column));
    factors.push_back(term.factor);
  }
  glp_set_mat_row(problem_->glpk, glpk_index(row), static_cast<int>(terms.size()), columns.data(),
                  factors.data());
}

std::optional<std::vector<double>> LinearProgram::solve() {
  glp_smcp options;
  glp_init_smcp(&options);
  options.msg_lev = GLP_MSG_OFF;
  glp_prob* const glpk = problem_->glpk;
  if (glp_simplex(glpk, &options) != 0 || glp_get_status(glpk) != GLP_OPT) {
    // The last basis may be of no use after the changes.
    glp_std_basis(glpk);
    if (glp_simplex(glpk, &options) != 0 || glp_get_status(glpk) != GLP_OPT) return std::nullopt;
  }
  std::vector<double> x;
  for (int column = 1; column <= glp_get_num_cols(glpk); ++column)
    x.push_back(glp_get_col_prim(glpk, column));
  return x;
}

std::optional<std::vector<double>> LinearProgram::solve_integer(double gap, int nodes_max) {
  if (!solve()) return std::nullopt;
  glp_prob* const glpk = problem_->glpk;
  for (int column = 1; column <= glp_get_num_cols(glpk); ++column)
    glp_set_col_kind(glpk, column, GLP_IV);
  Search search{.nodes_left = nodes_max};
  glp_iocp options;
  glp_init_iocp(&options);
  options.msg_lev = GLP_MSG_OFF;
  options.mip_gap = gap;
  options.cb_func = count_node;
  options.cb_info = &search;
  glp_intopt(glpk, &options);  // stopped by a limit or not, it may have found a solution
  const int status = glp_mip_status(glpk);
  std::optional<std::vector<double>> x;
  if (status == GLP_OPT || status == GLP_FEAS) {
    x.emplace();
    for (int column = 1; column <= glp_get_num_cols(glpk); ++column)
      x->push_back(std::round(glp_mip_col_val(glpk, column)));
  }
  for (int column = 1; column <= glp_get_num_cols(glpk); ++column)
    glp_set_col_kind(glpk, column, GLP_CV);
  return x;
}

}  // namespace es::scheduler
