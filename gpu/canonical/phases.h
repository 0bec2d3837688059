#pragma once
// Operators whose kernels are phases: which one follows which, and how each may be cut. The only
// place that composes them, for one thread and for several.
//
// `by` says who works:
//   by.threads()                   how many may work at once
//   by.share(count, floats, task)  calls task(begin, end) for ranges that together are [0, count),
//                                  possibly at the same time, and returns when all have returned;
//                                  an item is work on about `floats` floats
// Bits depend neither on `by` nor on the cuts: no chain of G3 is cut.
#include "gpu/canonical/kernels.h"
#include "gpu/canonical/shapes.h"

namespace es::gpu {
namespace {

// One thread does everything.
struct Alone {
  int threads() const { return 1; }
  template <class Task>
  void share(std::int64_t count, std::int64_t, Task&& task) const {
    task(std::int64_t{0}, count);
  }
};

// Threads do not share a block of columns: a kernel walks down its rows with all of its chains at
// once, and needs that many to keep the processor busy.
constexpr std::int64_t kColumnBlock = 64;

// Plain sums over fewer floats take a few microseconds, like two calls of helpers: one thread does
// them.
constexpr std::int64_t kSumAloneFloats = 1 << 17;

// Whether rows[cols] are better cut by columns than by runs: when the largest part is then smaller
// (deep layers have few rows), or as small and there are few runs, because a thread that has its
// columns alone goes through all phases without waiting for others.
inline bool cut_by_columns(std::int64_t rows, std::int64_t cols, int threads) {
  const std::int64_t runs = run_count(rows);
  const std::int64_t most_runs = ceil_div(runs, threads);
  const std::int64_t blocks = ceil_div(ceil_div(cols, kColumnBlock), threads);
  const std::int64_t most_cols = smaller(cols, blocks * kColumnBlock);
  const std::int64_t by_runs = most_runs * cols, by_columns = most_cols * runs;
  return by_columns < by_runs || (by_columns == by_runs && runs <= 4 * threads);
}

// task(begin, end) for columns, each of which means work on `floats` floats.
template <class Workers, class Task>
void share_columns(std::int64_t cols, std::int64_t floats, const Workers& by, Task&& task) {
  by.share(ceil_div(cols, kColumnBlock), floats * kColumnBlock,
           [&](std::int64_t begin, std::int64_t end) {
             task(begin * kColumnBlock, smaller(cols, end * kColumnBlock));
           });
}

// task(begin, end) for runs.
template <class Workers, class Task>
void share_runs(std::int64_t rows, std::int64_t cols, const Workers& by, Task&& task) {
  by.share(run_count(rows), smaller(kColumnRun, rows) * cols, task);
}

// The parts of a matrix that `by` works on at once, in one phase.
template <class Workers, class Task>
void share_matrix(std::int64_t rows, std::int64_t cols, const Workers& by, Task&& task) {
  if (cut_by_columns(rows, cols, by.threads())) {
    share_columns(cols, rows, by, [&](std::int64_t begin, std::int64_t end) {
      task(MatrixPart{0, run_count(rows), begin, end});
    });
  } else {
    share_runs(rows, cols, by, [&](std::int64_t begin, std::int64_t end) {
      task(MatrixPart{begin, end, 0, cols});
    });
  }
}

// first(part) for all parts of a matrix, then merge(col_begin, col_end), which reads what `first`
// has left for all runs of its columns, then, where there is one, last(part).
template <class Workers, class First, class Merge, class... Last>
void share_phases(std::int64_t rows, std::int64_t cols, const Workers& by, First&& first,
                  Merge&& merge, Last&&... last) {
  if (cut_by_columns(rows, cols, by.threads())) {
    share_matrix(rows, cols, by, [&](const MatrixPart& part) {
      first(part);
      merge(part.col_begin, part.col_end);
      (last(part), ...);
    });
  } else {
    share_matrix(rows, cols, by, first);
    share_columns(cols, 3 * run_count(rows), by, merge);
    (share_matrix(rows, cols, by, last), ...);
  }
}

template <class Workers>
void bn_train_fwd(const KernelTable& k, const BnForward& bn, const Workers& by) {
  share_phases(
      bn.rows, bn.c, by, [&](const MatrixPart& part) { k.bn_statistics(bn, part); },
      [&](std::int64_t begin, std::int64_t end) { k.bn_merge(bn, begin, end); },
      [&](const MatrixPart& part) {
        k.bn_apply(bn.rows, bn.c, part, bn.x, bn.mean, bn.ws, bn.beta, bn.act, bn.y);
      });
}

template <class Workers>
void bn_bwd(const KernelTable& k, const BnBackward& bn, const Workers& by) {
  share_phases(
      bn.rows, bn.c, by, [&](const MatrixPart& part) { k.bn_bwd_sums(bn, part); },
      [&](std::int64_t begin, std::int64_t end) { k.bn_bwd_merge(bn, begin, end); },
      [&](const MatrixPart& part) { k.bn_bwd_input(bn, part); });
}

// Evaluation mode, with the running statistics. ws: c floats.
template <class Workers>
void bn_eval(const KernelTable& k, std::int64_t rows, std::int64_t c, const float* x,
             const float* gamma, const float* beta, float eps, const float* running_mean,
             const float* running_var, Activation act, float* y, float* ws, const Workers& by) {
  k.bn_eval_scale(c, gamma, running_var, eps, ws);
  share_matrix(rows, c, by, [&](const MatrixPart& part) {
    k.bn_apply(rows, c, part, x, running_mean, ws, beta, act, y);
  });
}

template <class Workers>
void colsum(const KernelTable& k, std::int64_t rows, std::int64_t cols, const float* x, float* out,
            float* ws, const Workers& by) {
  const auto runs = [&](const MatrixPart& part) { k.colsum_runs(rows, cols, part, x, ws); };
  const auto finish = [&](std::int64_t begin, std::int64_t end) {
    k.colsum_finish(rows, cols, begin, end, ws, out);
  };
  if (rows * cols < kSumAloneFloats) return share_phases(rows, cols, Alone(), runs, finish);
  share_phases(rows, cols, by, runs, finish);
}

// dx may alias dy.
template <class Workers>
void layer_norm_bwd(const KernelTable& k, std::int64_t rows, std::int64_t c, const float* x,
                    const float* dy, const float* mean, const float* istd, const float* gamma,
                    float* dx, float* dgamma, float* dbeta, float* ws, const Workers& by) {
  const std::int64_t runs = run_count(rows);
  share_runs(rows, c, by, [&](std::int64_t begin, std::int64_t end) {
    k.layer_norm_bwd(rows, c, begin, end, x, dy, mean, istd, gamma, dx, ws);
  });
  share_columns(c, 2 * runs, by, [&](std::int64_t begin, std::int64_t end) {
    k.colsum_finish(rows, c, begin, end, ws, dgamma);
    k.colsum_finish(rows, c, begin, end, ws + runs * c, dbeta);
  });
}

// dtable[rows][c] from dy[count][c]. Cut by columns where they are enough: words are not read
// equally often, columns are.
template <class Workers>
void embedding_bwd(const KernelTable& k, std::int64_t count, std::int64_t c, std::int64_t rows,
                   const std::int32_t* ids, const float* dy, float* dtable, float* ws,
                   const Workers& by) {
  k.embedding_sort(count, rows, ids, ws);
  if ((rows + count) * c < kSumAloneFloats) {
    k.embedding_bwd(c, rows, 0, rows, 0, c, dy, ws, dtable);
  } else if (c >= kColumnBlock * by.threads()) {
    share_columns(c, rows + count, by, [&](std::int64_t begin, std::int64_t end) {
      k.embedding_bwd(c, rows, 0, rows, begin, end, dy, ws, dtable);
    });
  } else {
    by.share(rows, c + count * c / rows, [&](std::int64_t begin, std::int64_t end) {
      k.embedding_bwd(c, rows, begin, end, 0, c, dy, ws, dtable);
    });
  }
}

}  // namespace
}  // namespace es::gpu
