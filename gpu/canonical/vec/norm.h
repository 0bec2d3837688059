#pragma once
// COLSUM (G3) and batch norm. There is one accumulator for each column. It is in a register during
// a run of 64 rows, so the lanes of a vector are different columns and never different rows.
#include "gpu/canonical/shapes.h"
#include "gpu/canonical/vec/lanes.h"

namespace es::gpu {
namespace {

constexpr int kRunVecs = 4;  // vectors of columns that advance together

// to[c] = a chain of additions over `rows` rows that are `stride` floats apart. `to` may be the
// first of them.
inline void sum_rows(std::int64_t rows, std::int64_t stride, std::int64_t cols, const float* x,
                     float* to) {
  for_columns<kRunVecs>(cols, [&](std::int64_t c, auto at, auto vecs) {
    constexpr int kVecs = decltype(vecs)::value;
    Vec sum[kVecs];
    for (int v = 0; v < kVecs; ++v) sum[v] = zero();
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* row = x + r * stride + c;
      for (int v = 0; v < kVecs; ++v) sum[v] = add(sum[v], at.load(row + v * kWidth));
    }
    for (int v = 0; v < kVecs; ++v) at.store(to + c + v * kWidth, sum[v]);
  });
}

// Folds the run results p[runs][stride] into one row p[0..cols); at least one level.
inline void fold_runs(std::int64_t runs, std::int64_t stride, std::int64_t cols, float* p) {
  do {
    for (std::int64_t run = 0; run < run_count(runs); ++run) {
      sum_rows(run_rows(runs, run), stride, cols, p + run * kColumnRun * stride, p + run * stride);
    }
    runs = run_count(runs);
  } while (runs > 1);
}

inline std::size_t colsum_workspace_floats(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(run_count(rows) * cols);
}

inline void colsum_runs(std::int64_t rows, std::int64_t cols, const MatrixPart& part,
                        const float* x, float* ws) {
  for (std::int64_t run = part.run_begin; run < part.run_end; ++run) {
    sum_rows(run_rows(rows, run), cols, part.col_end - part.col_begin,
             x + run * kColumnRun * cols + part.col_begin, ws + run * cols + part.col_begin);
  }
}

inline void colsum_finish(std::int64_t rows, std::int64_t cols, std::int64_t col_begin,
                          std::int64_t col_end, float* ws, float* out) {
  fold_runs(run_count(rows), cols, col_end - col_begin, ws + col_begin);
  copy_floats(out + col_begin, ws + col_begin, col_end - col_begin);
}

// Computes the sum, the mean and the squared deviations from that mean for one run. The second pass
// over the rows finds them in the first-level cache, so x is read from memory once.
inline void run_statistics(std::int64_t rows, std::int64_t stride, std::int64_t cols,
                           const float* x, float* sums, float* means, float* squares) {
  const Vec recip_rows = set(recip(rows));
  for_columns<kRunVecs>(cols, [&](std::int64_t j, auto at, auto vecs) {
    constexpr int kVecs = decltype(vecs)::value;
    Vec sum[kVecs], mean[kVecs];
    for (int v = 0; v < kVecs; ++v) sum[v] = zero();
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* row = x + r * stride + j;
      for (int v = 0; v < kVecs; ++v) sum[v] = add(sum[v], at.load(row + v * kWidth));
    }
    for (int v = 0; v < kVecs; ++v) {
      mean[v] = mul(sum[v], recip_rows);
      at.store(sums + j + v * kWidth, sum[v]);
      at.store(means + j + v * kWidth, mean[v]);
      sum[v] = zero();
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* row = x + r * stride + j;
      for (int v = 0; v < kVecs; ++v) {
        const Vec d = sub(at.load(row + v * kWidth), mean[v]);
        sum[v] = fma(d, d, sum[v]);
      }
    }
    for (int v = 0; v < kVecs; ++v) at.store(squares + j + v * kWidth, sum[v]);
  });
}

inline std::size_t bn_workspace_floats(std::int64_t rows, std::int64_t c) {
  return static_cast<std::size_t>(3 * run_count(rows) * c + c);
}

inline void bn_statistics(const BnForward& bn, const MatrixPart& part) {
  const BnWorkspace ws = bn_workspace(bn.rows, bn.c, bn.ws);
  for (std::int64_t run = part.run_begin; run < part.run_end; ++run) {
    const std::int64_t to = run * bn.c + part.col_begin;
    run_statistics(run_rows(bn.rows, run), bn.c, part.col_end - part.col_begin,
                   bn.x + run * kColumnRun * bn.c + part.col_begin, ws.sum + to, ws.mean + to,
                   ws.squares + to);
  }
}

// Like for_vectors(), for [begin, end).
template <class Body>
inline __attribute__((always_inline)) void for_range(std::int64_t begin, std::int64_t end,
                                                     Body body) {
  for_vectors(end - begin, [&](std::int64_t i, auto at) { body(begin + i, at); });
}

// Computes the mean of all rows, and leaves variance * rows in the first row of ws.squares.
inline void merge_runs(const BnForward& bn, std::int64_t begin, std::int64_t end,
                       const BnWorkspace& ws) {
  const std::int64_t runs = run_count(bn.rows);
  fold_runs(runs, bn.c, end - begin, ws.sum + begin);
  for_range(begin, end, [&](std::int64_t j, auto at) {
    at.store(bn.mean + j, mul(at.load(ws.sum + j), set(recip(bn.rows))));
  });
  for (std::int64_t run = 0; run < runs; ++run) {
    const Vec count = set(static_cast<float>(run_rows(bn.rows, run)));
    const float* means = ws.mean + run * bn.c;
    float* squares = ws.squares + run * bn.c;
    for_range(begin, end, [&](std::int64_t j, auto at) {
      // The squares of the run are moved to the mean of all rows, as bn_moved_squares() does for a
      // float.
      const Vec e = sub(at.load(means + j), at.load(bn.mean + j));
      at.store(squares + j, fma(mul(count, e), e, at.load(squares + j)));
    });
  }
  // The corrected squares are summed in the order of COLSUM too.
  fold_runs(runs, bn.c, end - begin, ws.squares + begin);
}

inline Vec inverse_deviation(Vec variance, float eps) {
  return div(set(1.0f), sqrt(add(variance, set(eps))));
}

inline void bn_merge(const BnForward& bn, std::int64_t col_begin, std::int64_t col_end) {
  const BnWorkspace ws = bn_workspace(bn.rows, bn.c, bn.ws);
  merge_runs(bn, col_begin, col_end, ws);
  // The running variance is the unbiased one, as in PyTorch. With a single row the quotient R / (R
  // - 1) does not exist, and 1 takes its place.
  const Vec unbiased = set(bn.rows == 1 ? 1.0f : static_cast<float>(bn.rows) * recip(bn.rows - 1));
  const Vec blend = set(bn.momentum), keep = set(1.0f - bn.momentum);
  for_range(col_begin, col_end, [&](std::int64_t j, auto at) {
    const Vec variance = mul(at.load(ws.squares + j), set(recip(bn.rows)));
    const Vec inverse = inverse_deviation(variance, bn.eps);
    at.store(bn.istd + j, inverse);
    at.store(ws.a + j, mul(at.load(bn.gamma + j), inverse));
    at.store(bn.next_mean + j,
             fma(blend, at.load(bn.mean + j), mul(keep, at.load(bn.running_mean + j))));
    at.store(bn.next_var + j,
             fma(blend, mul(variance, unbiased), mul(keep, at.load(bn.running_var + j))));
  });
}

inline void bn_eval_scale(std::int64_t c, const float* gamma, const float* running_var, float eps,
                          float* a) {
  for_vectors(c, [&](std::int64_t j, auto at) {
    at.store(a + j, mul(at.load(gamma + j), inverse_deviation(at.load(running_var + j), eps)));
  });
}

// Returns the gradient `value` after an activation whose input was `test`.
template <Activation kAct>
inline Vec activate(Vec value, Vec test) {
  if constexpr (kAct == Activation::kRelu) return keep_positive(value, test);
  if constexpr (kAct == Activation::kLeakyRelu) return leaky(value, test, set(kLeakySlope));
  return value;
}
// Forward pass: the value is its own test.
template <Activation kAct>
inline Vec activate(Vec value) {
  if constexpr (kAct == Activation::kRelu) return positive_part(value);
  if constexpr (kAct == Activation::kLeakyRelu) return leaky(value, set(kLeakySlope));
  return value;
}

// Passes the activation to `body` as a template argument.
template <Activation kAct>
struct ActivationConstant {
  static constexpr Activation value = kAct;
};
template <class Body>
inline __attribute__((always_inline)) void with_activation(Activation act, Body body) {
  if (act == Activation::kNone) return body(ActivationConstant<Activation::kNone>());
  if (act == Activation::kRelu) return body(ActivationConstant<Activation::kRelu>());
  body(ActivationConstant<Activation::kLeakyRelu>());
}

// Calls body(first element of a row) for the rows of a part. The rows of the last run come first,
// because the previous pass has left them in the caches.
template <class Body>
inline __attribute__((always_inline)) void for_rows_backwards(std::int64_t rows, std::int64_t c,
                                                              const MatrixPart& part, Body body) {
  for (std::int64_t run = part.run_end - 1; run >= part.run_begin; --run) {
    const std::int64_t first = run * kColumnRun;
    for (std::int64_t r = 0; r < run_rows(rows, run); ++r) {
      body((first + r) * c + part.col_begin);
    }
  }
}

template <Activation kAct>
void normalize(std::int64_t rows, std::int64_t c, MatrixPart part, const float* x,
               const float* mean, const float* a, const float* beta, float* y) {
  for_rows_backwards(rows, c, part, [&](std::int64_t row) {
    for_vectors(part.col_end - part.col_begin, [&](std::int64_t j, auto at) {
      const Vec value =
          fma(sub(at.load(x + row + j), at.load(mean + j)), at.load(a + j), at.load(beta + j));
      at.store(y + row + j, activate<kAct>(value));
    });
  });
}

inline void bn_apply(std::int64_t rows, std::int64_t c, const MatrixPart& part, const float* x,
                     const float* mean, const float* a, const float* beta, Activation act,
                     float* y) {
  const std::int64_t j = part.col_begin;
  with_activation(act, [&](auto kind) {
    normalize<decltype(kind)::value>(rows, c, part, x, mean + j, a + j, beta + j, y);
  });
}

// Computes the sums of g, and of g * d, of one run.
template <Activation kAct>
void backward_run(const BnBackward& bn, std::int64_t run, std::int64_t col_begin,
                  std::int64_t col_end, const BnWorkspace& ws) {
  const std::int64_t first = run * kColumnRun, last = first + run_rows(bn.rows, run);
  for_columns<kRunVecs>(col_end - col_begin, [&](std::int64_t i, auto at, auto vecs) {
    constexpr int kVecs = decltype(vecs)::value;
    const std::int64_t j = col_begin + i;
    Vec sum[kVecs], product[kVecs], mean[kVecs], a[kVecs], beta[kVecs];
    for (int v = 0; v < kVecs; ++v) {
      sum[v] = product[v] = zero();
      mean[v] = at.load(bn.mean + j + v * kWidth);
      // The forward pass computed gamma * istd in the same way, so the test of the activation has
      // the same bits here.
      a[v] = mul(at.load(bn.gamma + j + v * kWidth), at.load(bn.istd + j + v * kWidth));
      beta[v] = at.load(bn.beta + j + v * kWidth);
    }
    for (std::int64_t r = first; r < last; ++r) {
      for (int v = 0; v < kVecs; ++v) {
        const std::int64_t from = r * bn.c + j + v * kWidth;
        const Vec d = sub(at.load(bn.x + from), mean[v]);
        const Vec dy = at.load(bn.dy + from);
        const Vec g = activate<kAct>(dy, fma(d, a[v], beta[v]));
        sum[v] = add(sum[v], g);
        product[v] = fma(g, d, product[v]);
      }
    }
    for (int v = 0; v < kVecs; ++v) {
      at.store(ws.gradient + run * bn.c + j + v * kWidth, sum[v]);
      at.store(ws.product + run * bn.c + j + v * kWidth, product[v]);
    }
  });
}

inline void bn_bwd_sums(const BnBackward& bn, const MatrixPart& part) {
  const BnWorkspace ws = bn_workspace(bn.rows, bn.c, bn.ws);
  with_activation(bn.act, [&](auto kind) {
    for (std::int64_t run = part.run_begin; run < part.run_end; ++run) {
      backward_run<decltype(kind)::value>(bn, run, part.col_begin, part.col_end, ws);
    }
  });
}

// Leaves db * recip(R) and (dg * istd) * recip(R) in the first rows of the runs' sums.
inline void bn_bwd_merge(const BnBackward& bn, std::int64_t col_begin, std::int64_t col_end) {
  const BnWorkspace ws = bn_workspace(bn.rows, bn.c, bn.ws);
  const std::int64_t runs = run_count(bn.rows);
  fold_runs(runs, bn.c, col_end - col_begin, ws.gradient + col_begin);
  fold_runs(runs, bn.c, col_end - col_begin, ws.product + col_begin);
  const Vec recip_rows = set(recip(bn.rows));
  for_range(col_begin, col_end, [&](std::int64_t j, auto at) {
    const Vec db = at.load(ws.gradient + j), inverse = at.load(bn.istd + j);
    const Vec dg = mul(at.load(ws.product + j), inverse);
    at.store(ws.a + j, mul(at.load(bn.gamma + j), inverse));
    at.store(bn.dbeta + j, db);
    at.store(bn.dgamma + j, dg);
    at.store(ws.gradient + j, mul(db, recip_rows));
    at.store(ws.product + j, mul(mul(dg, inverse), recip_rows));
  });
}

// dx = a * fma(-d, spread, g - shift). The addresses are local variables: a vector store may change
// anything in memory, so the compiler would read addresses in `bn` again after each store.
template <Activation kAct>
void backward_input(const BnBackward& bn, MatrixPart part, const BnWorkspace& ws) {
  const std::int64_t first = part.col_begin, cols = part.col_end - first;
  const float *x = bn.x, *dy = bn.dy, *mean = bn.mean + first, *beta = bn.beta + first;
  const float *a = ws.a + first, *shift = ws.gradient + first, *spread = ws.product + first;
  float* dx = bn.dx;
  for_rows_backwards(bn.rows, bn.c, part, [=](std::int64_t row) {
    for_vectors(cols, [=](std::int64_t j, auto at) {
      const Vec d = sub(at.load(x + row + j), at.load(mean + j));
      const Vec gradient = at.load(dy + row + j), factor = at.load(a + j);
      const Vec g = activate<kAct>(gradient, fma(d, factor, at.load(beta + j)));
      const Vec centred = sub(g, at.load(shift + j));
      at.store(dx + row + j, mul(factor, fma(negate(d), at.load(spread + j), centred)));
    });
  });
}

inline void bn_bwd_input(const BnBackward& bn, const MatrixPart& part) {
  const BnWorkspace ws = bn_workspace(bn.rows, bn.c, bn.ws);
  with_activation(bn.act, [&](auto kind) { backward_input<decltype(kind)::value>(bn, part, ws); });
}

}  // namespace
}  // namespace es::gpu
