#pragma once
// COLSUM (G3) and batch norm. One accumulator for each column, held in registers over a run of 64
// rows: no lanes across rows.
#include "gpu/canonical/kernels.h"
#include "gpu/canonical/vec/lanes.h"

namespace es::gpu {
namespace {

constexpr int kRunVecs = 4;  // vectors of columns that advance together

inline std::int64_t run_count(std::int64_t rows) {
  return ceil_div(rows, kColumnRun);
}
inline std::int64_t run_rows(std::int64_t rows, std::int64_t run) {
  return smaller(kColumnRun, rows - run * kColumnRun);
}

// to[run][c] = chain of adds over the rows of each run. `to` may be `from`.
inline void sum_runs(std::int64_t rows, std::int64_t cols, const float* from, float* to) {
  for (std::int64_t run = 0; run < run_count(rows); ++run) {
    const float* block = from + run * kColumnRun * cols;
    for_columns<kRunVecs>(cols, [&](std::int64_t c, auto at, auto vecs) {
      constexpr int kVecs = decltype(vecs)::value;
      Vec sum[kVecs];
      for (int v = 0; v < kVecs; ++v) sum[v] = zero();
      for (std::int64_t r = 0; r < run_rows(rows, run); ++r) {
        const float* row = block + r * cols + c;
        for (int v = 0; v < kVecs; ++v) sum[v] = add(sum[v], at.load(row + v * kWidth));
      }
      for (int v = 0; v < kVecs; ++v) at.store(to + run * cols + c + v * kWidth, sum[v]);
    });
  }
}

// Run results to one row p[0..cols), at least one level.
inline void colsum_runs(std::int64_t runs, std::int64_t cols, float* p) {
  do {
    sum_runs(runs, cols, p, p);
    runs = run_count(runs);
  } while (runs > 1);
}

inline std::size_t colsum_workspace_floats(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(run_count(rows) * cols);
}

inline void colsum(std::int64_t rows, std::int64_t cols, const float* x, float* out, float* ws) {
  sum_runs(rows, cols, x, ws);
  colsum_runs(run_count(rows), cols, ws);
  copy_floats(out, ws, cols);
}

// Per run of 64 rows: the sum, the mean of the run, and the squared deviations from that mean.
struct RunStatistics {
  float *sum, *mean, *squares;  // [runs][c] each
};

// One run. The second walk over the rows finds them in the first-level cache, so x is read once.
inline void run_statistics(std::int64_t rows, std::int64_t c, const float* x, float* sums,
                           float* means, float* squares) {
  const Vec recip_rows = set(recip(rows));
  for_columns<kRunVecs>(c, [&](std::int64_t j, auto at, auto vecs) {
    constexpr int kVecs = decltype(vecs)::value;
    Vec sum[kVecs], mean[kVecs];
    for (int v = 0; v < kVecs; ++v) sum[v] = zero();
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* row = x + r * c + j;
      for (int v = 0; v < kVecs; ++v) sum[v] = add(sum[v], at.load(row + v * kWidth));
    }
    for (int v = 0; v < kVecs; ++v) {
      mean[v] = mul(sum[v], recip_rows);
      at.store(sums + j + v * kWidth, sum[v]);
      at.store(means + j + v * kWidth, mean[v]);
      sum[v] = zero();
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* row = x + r * c + j;
      for (int v = 0; v < kVecs; ++v) {
        const Vec d = sub(at.load(row + v * kWidth), mean[v]);
        sum[v] = fused(d, d, sum[v]);
      }
    }
    for (int v = 0; v < kVecs; ++v) at.store(squares + j + v * kWidth, sum[v]);
  });
}

// After this stats.squares[0..c) holds variance * rows.
inline void merge_runs(std::int64_t rows, std::int64_t c, const RunStatistics& stats, float* mean) {
  colsum_runs(run_count(rows), c, stats.sum);
  for_vectors(c, [&](std::int64_t j, auto at) {
    at.store(mean + j, mul(at.load(stats.sum + j), set(recip(rows))));
  });
  for (std::int64_t run = 0; run < run_count(rows); ++run) {
    const Vec count = set(static_cast<float>(run_rows(rows, run)));
    const float* means = stats.mean + run * c;
    float* squares = stats.squares + run * c;
    for_vectors(c, [&](std::int64_t j, auto at) {
      const Vec e = sub(at.load(means + j), at.load(mean + j));
      at.store(squares + j, fused(mul(count, e), e, at.load(squares + j)));
    });
  }
  colsum_runs(run_count(rows), c, stats.squares);
}

// `value` passed forward or backward through an activation whose input was `test`.
template <Activation kAct>
inline Vec activate(Vec value, Vec test) {
  if constexpr (kAct == Activation::kRelu) return keep_positive(value, test);
  if constexpr (kAct == Activation::kLeakyRelu) {
    return select(less(zero(), test), value, mul(value, set(kLeakySlope)));
  }
  return value;
}

// Calls body(activation as a template argument).
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

// Calls body(row) for all rows, the last ones first: they are what the pass before has left in the
// caches.
template <class Body>
inline __attribute__((always_inline)) void for_rows_backwards(std::int64_t rows, Body body) {
  for (std::int64_t run = run_count(rows) - 1; run >= 0; --run) {
    for (std::int64_t r = 0; r < run_rows(rows, run); ++r) body(run * kColumnRun + r);
  }
}

template <Activation kAct>
void normalize_rows(std::int64_t rows, std::int64_t c, const float* x, const float* mean,
                    const float* a, const float* beta, float* y) {
  for_rows_backwards(rows, [&](std::int64_t r) {
    for_vectors(c, [&](std::int64_t j, auto at) {
      const Vec value =
          fused(sub(at.load(x + r * c + j), at.load(mean + j)), at.load(a + j), at.load(beta + j));
      at.store(y + r * c + j, activate<kAct>(value, value));
    });
  });
}

inline void normalize(std::int64_t rows, std::int64_t c, const float* x, const float* mean,
                      const float* a, const float* beta, Activation act, float* y) {
  with_activation(
      act, [&](auto kind) { normalize_rows<decltype(kind)::value>(rows, c, x, mean, a, beta, y); });
}

inline Vec inverse_deviation(Vec variance, float eps) {
  return div(set(1.0f), root(add(variance, set(eps))));
}

inline std::size_t bn_workspace_floats(std::int64_t rows, std::int64_t c) {
  return static_cast<std::size_t>(3 * run_count(rows) * c + c);
}

inline void bn_train_fwd(std::int64_t rows, std::int64_t c, const float* x, const float* gamma,
                         const float* beta, float eps, float momentum, const float* running_mean,
                         const float* running_var, Activation act, float* y, float* mean,
                         float* istd, float* next_mean, float* next_var, float* ws) {
  const std::int64_t size = run_count(rows) * c;
  const RunStatistics stats{ws, ws + size, ws + 2 * size};
  float* a = ws + 3 * size;
  for (std::int64_t run = 0; run < run_count(rows); ++run) {
    run_statistics(run_rows(rows, run), c, x + run * kColumnRun * c, stats.sum + run * c,
                   stats.mean + run * c, stats.squares + run * c);
  }
  merge_runs(rows, c, stats, mean);
  const Vec unbiased = set(rows == 1 ? 1.0f : static_cast<float>(rows) * recip(rows - 1));
  const Vec blend = set(momentum), keep = set(1.0f - momentum);
  for_vectors(c, [&](std::int64_t j, auto at) {
    const Vec variance = mul(at.load(stats.squares + j), set(recip(rows)));
    const Vec inverse = inverse_deviation(variance, eps);
    at.store(istd + j, inverse);
    at.store(a + j, mul(at.load(gamma + j), inverse));
    at.store(next_mean + j, fused(blend, at.load(mean + j), mul(keep, at.load(running_mean + j))));
    at.store(next_var + j,
             fused(blend, mul(variance, unbiased), mul(keep, at.load(running_var + j))));
  });
  normalize(rows, c, x, mean, a, beta, act, y);
}

inline void bn_eval(std::int64_t rows, std::int64_t c, const float* x, const float* gamma,
                    const float* beta, float eps, const float* running_mean,
                    const float* running_var, Activation act, float* y, float* ws) {
  for_vectors(c, [&](std::int64_t j, auto at) {
    at.store(ws + j, mul(at.load(gamma + j), inverse_deviation(at.load(running_var + j), eps)));
  });
  normalize(rows, c, x, running_mean, ws, beta, act, y);
}

// What the backward pass reads. The ReLU mask is recomputed from x, so y is not needed.
struct BnBackward {
  std::int64_t rows, c;
  const float *x, *dy, *mean, *a, *beta;
};

// sums[c] = sum of g, products[c] = sum of g * d over one run that starts at row `first`.
template <Activation kAct>
void bn_backward_run(const BnBackward& bn, std::int64_t first, std::int64_t rows, float* sums,
                     float* products) {
  for_columns<kRunVecs>(bn.c, [&](std::int64_t j, auto at, auto vecs) {
    constexpr int kVecs = decltype(vecs)::value;
    Vec sum[kVecs], product[kVecs], mean[kVecs], a[kVecs], beta[kVecs];
    for (int v = 0; v < kVecs; ++v) {
      sum[v] = product[v] = zero();
      mean[v] = at.load(bn.mean + j + v * kWidth);
      a[v] = at.load(bn.a + j + v * kWidth);
      beta[v] = at.load(bn.beta + j + v * kWidth);
    }
    for (std::int64_t r = first; r < first + rows; ++r) {
      for (int v = 0; v < kVecs; ++v) {
        const std::int64_t i = r * bn.c + j + v * kWidth;
        const Vec d = sub(at.load(bn.x + i), mean[v]);
        const Vec dy = at.load(bn.dy + i);
        const Vec g = activate<kAct>(dy, fused(d, a[v], beta[v]));
        sum[v] = add(sum[v], g);
        product[v] = fused(g, d, product[v]);
      }
    }
    for (int v = 0; v < kVecs; ++v) {
      at.store(sums + j + v * kWidth, sum[v]);
      at.store(products + j + v * kWidth, product[v]);
    }
  });
}

// dx = a * fma(-d, spread, g - shift)
template <Activation kAct>
void bn_backward_input(const BnBackward& bn, const float* shift, const float* spread, float* dx) {
  for_rows_backwards(bn.rows, [&](std::int64_t r) {
    const std::int64_t row = r * bn.c;
    for_vectors(bn.c, [&](std::int64_t j, auto at) {
      const Vec d = sub(at.load(bn.x + row + j), at.load(bn.mean + j));
      const Vec dy = at.load(bn.dy + row + j), a = at.load(bn.a + j);
      const Vec g = activate<kAct>(dy, fused(d, a, at.load(bn.beta + j)));
      const Vec centred = sub(g, at.load(shift + j));
      at.store(dx + row + j, mul(a, fused(negate(d), at.load(spread + j), centred)));
    });
  });
}

inline void bn_bwd(std::int64_t rows, std::int64_t c, const float* x, const float* dy,
                   const float* mean, const float* istd, const float* gamma, const float* beta,
                   Activation act, float* dx, float* dgamma, float* dbeta, float* ws) {
  const std::int64_t size = run_count(rows) * c;
  float *sum = ws, *product = ws + size, *a = ws + 2 * size;
  for_vectors(c, [&](std::int64_t j, auto at) {
    at.store(a + j, mul(at.load(gamma + j), at.load(istd + j)));
  });
  const BnBackward bn{rows, c, x, dy, mean, a, beta};
  with_activation(act, [&](auto kind) {
    for (std::int64_t run = 0; run < run_count(rows); ++run) {
      bn_backward_run<decltype(kind)::value>(bn, run * kColumnRun, run_rows(rows, run),
                                             sum + run * c, product + run * c);
    }
  });
  colsum_runs(run_count(rows), c, sum);
  colsum_runs(run_count(rows), c, product);
  const Vec recip_rows = set(recip(rows));
  for_vectors(c, [&](std::int64_t j, auto at) {
    const Vec db = at.load(sum + j), inverse = at.load(istd + j);
    const Vec dg = mul(at.load(product + j), inverse);
    at.store(dbeta + j, db);
    at.store(dgamma + j, dg);
    at.store(sum + j, mul(db, recip_rows));
    at.store(product + j, mul(mul(dg, inverse), recip_rows));
  });
  with_activation(
      act, [&](auto kind) { bn_backward_input<decltype(kind)::value>(bn, sum, product, dx); });
}

}  // namespace
}  // namespace es::gpu
