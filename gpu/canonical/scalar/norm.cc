// COLSUM (G3) and batch norm. Accumulators live in memory, one for each column, so that the inner
// loop runs over columns.
#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu::scalar {
namespace {

std::int64_t run_count(std::int64_t rows) {
  return ceil_div(rows, kColumnRun);
}
std::int64_t run_rows(std::int64_t rows, std::int64_t run) {
  return smaller(kColumnRun, rows - run * kColumnRun);
}

// out[c] = chain of adds from +0 over `rows` rows. `out` may be the first of the rows.
void sum_rows(std::int64_t rows, std::int64_t cols, const float* x, float* out) {
  for (std::int64_t c = 0; c < cols; ++c) out[c] = 0.0f + x[c];
  for (std::int64_t r = 1; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) out[c] = out[c] + x[r * cols + c];
  }
}

// Per run of 64 rows: the sum, the mean of the run, and the squared deviations from that mean.
struct RunStatistics {
  float *sum, *mean, *squares;  // [runs][c] each
};

void run_statistics(std::int64_t rows, std::int64_t c, const float* x, const RunStatistics& out) {
  for (std::int64_t run = 0; run < run_count(rows); ++run) {
    const std::int64_t count = run_rows(rows, run), at = run * c;
    const float* block = x + run * kColumnRun * c;
    sum_rows(count, c, block, out.sum + at);
    for (std::int64_t j = 0; j < c; ++j) {
      out.mean[at + j] = out.sum[at + j] * recip(count);
      out.squares[at + j] = 0.0f;
    }
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t j = 0; j < c; ++j) {
        const float d = block[r * c + j] - out.mean[at + j];
        out.squares[at + j] = fused(d, d, out.squares[at + j]);
      }
    }
  }
}

// Batch mean and variance out of the runs: after this stats.sum[0..c) and stats.squares[0..c) hold
// mean * rows and variance * rows.
void merge_runs(std::int64_t rows, std::int64_t c, const RunStatistics& stats, float* mean) {
  colsum_runs(run_count(rows), c, stats.sum);
  for (std::int64_t j = 0; j < c; ++j) mean[j] = stats.sum[j] * recip(rows);
  for (std::int64_t run = 0; run < run_count(rows); ++run) {
    const float count = static_cast<float>(run_rows(rows, run));
    for (std::int64_t j = 0; j < c; ++j) {
      const float e = stats.mean[run * c + j] - mean[j];
      float& squares = stats.squares[run * c + j];
      squares = fused(count * e, e, squares);
    }
  }
  colsum_runs(run_count(rows), c, stats.squares);
}

// `value` passed forward or backward through an activation whose input was `test`.
float activate(Activation act, float value, float test) {
  if (act == Activation::kNone || test > 0.0f) return value;
  return act == Activation::kRelu ? 0.0f : value * kLeakySlope;
}

// y = fma(x - mean, a, beta), then the activation.
void normalize(std::int64_t rows, std::int64_t c, const float* x, const float* mean, const float* a,
               const float* beta, Activation act, float* y) {
  for (std::int64_t r = 0; r < rows; ++r, x += c, y += c) {
    for (std::int64_t j = 0; j < c; ++j) {
      const float value = fused(x[j] - mean[j], a[j], beta[j]);
      y[j] = activate(act, value, value);
    }
  }
}

float inverse_deviation(float variance, float eps) {
  return 1.0f / square_root(variance + eps);
}

}  // namespace

std::size_t colsum_workspace_floats(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(run_count(rows) * cols);
}

void colsum_runs(std::int64_t runs, std::int64_t cols, float* p) {
  do {
    for (std::int64_t run = 0; run < run_count(runs); ++run) {
      sum_rows(run_rows(runs, run), cols, p + run * kColumnRun * cols, p + run * cols);
    }
    runs = run_count(runs);
  } while (runs > 1);
}

void colsum(std::int64_t rows, std::int64_t cols, const float* x, float* out, float* ws) {
  for (std::int64_t run = 0; run < run_count(rows); ++run) {
    sum_rows(run_rows(rows, run), cols, x + run * kColumnRun * cols, ws + run * cols);
  }
  colsum_runs(run_count(rows), cols, ws);
  for (std::int64_t c = 0; c < cols; ++c) out[c] = ws[c];
}

std::size_t bn_workspace_floats(std::int64_t rows, std::int64_t c) {
  return static_cast<std::size_t>(3 * run_count(rows) * c + c);
}

void bn_train_fwd(std::int64_t rows, std::int64_t c, const float* x, const float* gamma,
                  const float* beta, float eps, float momentum, const float* running_mean,
                  const float* running_var, Activation act, float* y, float* mean, float* istd,
                  float* next_mean, float* next_var, float* ws) {
  const std::int64_t size = run_count(rows) * c;
  const RunStatistics stats{ws, ws + size, ws + 2 * size};
  float* a = ws + 3 * size;
  run_statistics(rows, c, x, stats);
  merge_runs(rows, c, stats, mean);
  const float unbiased = rows == 1 ? 1.0f : static_cast<float>(rows) * recip(rows - 1);
  for (std::int64_t j = 0; j < c; ++j) {
    const float variance = stats.squares[j] * recip(rows);
    istd[j] = inverse_deviation(variance, eps);
    a[j] = gamma[j] * istd[j];
    next_mean[j] = fused(momentum, mean[j], (1.0f - momentum) * running_mean[j]);
    next_var[j] = fused(momentum, variance * unbiased, (1.0f - momentum) * running_var[j]);
  }
  normalize(rows, c, x, mean, a, beta, act, y);
}

void bn_eval(std::int64_t rows, std::int64_t c, const float* x, const float* gamma,
             const float* beta, float eps, const float* running_mean, const float* running_var,
             Activation act, float* y, float* ws) {
  for (std::int64_t j = 0; j < c; ++j) ws[j] = gamma[j] * inverse_deviation(running_var[j], eps);
  normalize(rows, c, x, running_mean, ws, beta, act, y);
}

void bn_bwd(std::int64_t rows, std::int64_t c, const float* x, const float* dy, const float* mean,
            const float* istd, const float* gamma, const float* beta, Activation act, float* dx,
            float* dgamma, float* dbeta, float* ws) {
  const std::int64_t size = run_count(rows) * c;
  float *sum = ws, *product = ws + size, *a = ws + 2 * size;
  for (std::int64_t j = 0; j < c; ++j) a[j] = gamma[j] * istd[j];
  const auto gradient = [&](std::int64_t i, std::int64_t j, float d) {
    return activate(act, dy[i], fused(d, a[j], beta[j]));
  };
  for (std::int64_t i = 0; i < 2 * size; ++i) ws[i] = 0.0f;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t at = r / kColumnRun * c;
    for (std::int64_t j = 0; j < c; ++j) {
      const float d = x[r * c + j] - mean[j], g = gradient(r * c + j, j, d);
      sum[at + j] = sum[at + j] + g;
      product[at + j] = fused(g, d, product[at + j]);
    }
  }
  colsum_runs(run_count(rows), c, sum);
  colsum_runs(run_count(rows), c, product);
  for (std::int64_t j = 0; j < c; ++j) {
    dbeta[j] = sum[j];
    dgamma[j] = product[j] * istd[j];
    sum[j] = sum[j] * recip(rows);                     // db / R
    product[j] = (dgamma[j] * istd[j]) * recip(rows);  // dg * istd / R
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < c; ++j) {
      const std::int64_t i = r * c + j;
      const float d = x[i] - mean[j], g = gradient(i, j, d);
      dx[i] = a[j] * fused(-d, product[j], g - sum[j]);
    }
  }
}

}  // namespace es::gpu::scalar
