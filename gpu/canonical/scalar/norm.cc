// COLSUM (G3) and batch norm. There is one accumulator in memory for each column, so that the inner
// loop runs over columns.
#include "gpu/canonical/norm_math.h"
#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/shapes.h"

namespace es::gpu::scalar {
namespace {

// out[c] = a chain of additions from +0 over `rows` rows that are `stride` floats apart, for the
// columns [begin, end). `out` may be the first of the rows.
void sum_rows(std::int64_t rows, std::int64_t stride, std::int64_t begin, std::int64_t end,
              const float* x, float* out) {
  for (std::int64_t c = begin; c < end; ++c) out[c] = 0.0f + x[c];
  for (std::int64_t r = 1; r < rows; ++r) {
    for (std::int64_t c = begin; c < end; ++c) out[c] = out[c] + x[r * stride + c];
  }
}

// The second half of COLSUM: sums the run results p[runs][stride] of the columns [begin, end) in
// place, in runs of 64, at least once, until one row remains.
void fold_runs(std::int64_t runs, std::int64_t stride, std::int64_t begin, std::int64_t end,
               float* p) {
  do {
    for (std::int64_t run = 0; run < run_count(runs); ++run) {
      sum_rows(run_rows(runs, run), stride, begin, end, p + run * kColumnRun * stride,
               p + run * stride);
    }
    runs = run_count(runs);
  } while (runs > 1);
}

// Returns d = x - mean and the gradient g with respect to the activation's input, for element (r,
// j).
BnBackwardElement backward_element(const BnBackward& bn, std::int64_t r, std::int64_t j) {
  const std::int64_t i = r * bn.c + j;
  return bn_backward_element(bn.x[i], bn.dy[i], bn.mean[j], bn.gamma[j] * bn.istd[j], bn.beta[j],
                             bn.act);
}

std::int64_t first_row(const MatrixPart& part) {
  return part.run_begin * kColumnRun;
}
std::int64_t last_row(std::int64_t rows, const MatrixPart& part) {
  return smaller(rows, part.run_end * kColumnRun);
}

}  // namespace

std::size_t colsum_workspace_floats(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(run_count(rows) * cols);
}

void colsum_runs(std::int64_t rows, std::int64_t cols, const MatrixPart& part, const float* x,
                 float* ws) {
  for (std::int64_t run = part.run_begin; run < part.run_end; ++run) {
    sum_rows(run_rows(rows, run), cols, part.col_begin, part.col_end, x + run * kColumnRun * cols,
             ws + run * cols);
  }
}

void colsum_finish(std::int64_t rows, std::int64_t cols, std::int64_t col_begin,
                   std::int64_t col_end, float* ws, float* out) {
  fold_runs(run_count(rows), cols, col_begin, col_end, ws);
  for (std::int64_t c = col_begin; c < col_end; ++c) out[c] = ws[c];
}

std::size_t bn_workspace_floats(std::int64_t rows, std::int64_t c) {
  return static_cast<std::size_t>(3 * run_count(rows) * c + c);
}

void bn_statistics(const BnForward& bn, const MatrixPart& part) {
  const BnWorkspace ws = bn_workspace(bn.rows, bn.c, bn.ws);
  for (std::int64_t run = part.run_begin; run < part.run_end; ++run) {
    const std::int64_t count = run_rows(bn.rows, run), at = run * bn.c;
    const float* block = bn.x + run * kColumnRun * bn.c;
    sum_rows(count, bn.c, part.col_begin, part.col_end, block, ws.sum + at);
    for (std::int64_t j = part.col_begin; j < part.col_end; ++j) {
      // Deviations are taken from the mean of the run and not of all rows. So a run needs no other
      // run, and large values that are nearly equal do not cancel.
      ws.mean[at + j] = ws.sum[at + j] * recip(count);
      ws.squares[at + j] = 0.0f;
    }
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t j = part.col_begin; j < part.col_end; ++j) {
        const float d = block[r * bn.c + j] - ws.mean[at + j];
        ws.squares[at + j] = fma(d, d, ws.squares[at + j]);
      }
    }
  }
}

void bn_merge(const BnForward& bn, std::int64_t col_begin, std::int64_t col_end) {
  const BnWorkspace ws = bn_workspace(bn.rows, bn.c, bn.ws);
  const std::int64_t runs = run_count(bn.rows);
  fold_runs(runs, bn.c, col_begin, col_end, ws.sum);
  for (std::int64_t j = col_begin; j < col_end; ++j) bn.mean[j] = ws.sum[j] * recip(bn.rows);
  for (std::int64_t run = 0; run < runs; ++run) {
    const float count = static_cast<float>(run_rows(bn.rows, run));
    for (std::int64_t j = col_begin; j < col_end; ++j) {
      const std::int64_t i = run * bn.c + j;
      // The squares of a run are moved from its own mean to the mean of all rows before they are
      // added.
      ws.squares[i] = bn_moved_squares(ws.squares[i], count, ws.mean[i], bn.mean[j]);
    }
  }
  fold_runs(runs, bn.c, col_begin, col_end, ws.squares);
  for (std::int64_t j = col_begin; j < col_end; ++j) {
    ws.a[j] = bn_finish_column(bn, j, ws.squares[j]);
  }
}

void bn_apply(std::int64_t rows, std::int64_t c, const MatrixPart& part, const float* x,
              const float* mean, const float* a, const float* beta, Activation act, float* y) {
  for (std::int64_t r = first_row(part); r < last_row(rows, part); ++r) {
    for (std::int64_t j = part.col_begin; j < part.col_end; ++j) {
      y[r * c + j] = bn_output(x[r * c + j], mean[j], a[j], beta[j], act);
    }
  }
}

void bn_eval_scale(std::int64_t c, const float* gamma, const float* running_var, float eps,
                   float* a) {
  for (std::int64_t j = 0; j < c; ++j) a[j] = gamma[j] * inverse_deviation(running_var[j], eps);
}

void bn_bwd_sums(const BnBackward& bn, const MatrixPart& part) {
  const BnWorkspace ws = bn_workspace(bn.rows, bn.c, bn.ws);
  for (std::int64_t r = first_row(part); r < last_row(bn.rows, part); ++r) {
    float* sum = ws.gradient + r / kColumnRun * bn.c;
    float* product = ws.product + r / kColumnRun * bn.c;
    for (std::int64_t j = part.col_begin; j < part.col_end; ++j) {
      if (r % kColumnRun == 0) sum[j] = product[j] = 0.0f;
      const BnBackwardElement e = backward_element(bn, r, j);
      sum[j] = sum[j] + e.g;
      product[j] = fma(e.g, e.d, product[j]);
    }
  }
}

void bn_bwd_merge(const BnBackward& bn, std::int64_t col_begin, std::int64_t col_end) {
  const BnWorkspace ws = bn_workspace(bn.rows, bn.c, bn.ws);
  fold_runs(run_count(bn.rows), bn.c, col_begin, col_end, ws.gradient);
  fold_runs(run_count(bn.rows), bn.c, col_begin, col_end, ws.product);
  for (std::int64_t j = col_begin; j < col_end; ++j) {
    const BnBackwardColumn column = bn_finish_backward(bn, j, ws.gradient[j], ws.product[j]);
    // The sums in the first row are no longer needed, so the row takes what bn_bwd_input() reads.
    ws.gradient[j] = column.gradient;
    ws.product[j] = column.product;
  }
}

void bn_bwd_input(const BnBackward& bn, const MatrixPart& part) {
  const BnWorkspace ws = bn_workspace(bn.rows, bn.c, bn.ws);
  for (std::int64_t r = first_row(part); r < last_row(bn.rows, part); ++r) {
    for (std::int64_t j = part.col_begin; j < part.col_end; ++j) {
      const BnBackwardElement e = backward_element(bn, r, j);
      const BnBackwardColumn column{ws.gradient[j], ws.product[j]};
      bn.dx[r * bn.c + j] = bn_input_gradient(e, bn.gamma[j] * bn.istd[j], column);
    }
  }
}

}  // namespace es::gpu::scalar
