#pragma once
// Operators whose kernels are phases: the order of the phases, and how each may be divided. This is
// the only place that composes them, for one thread and for several.
//
// `by` describes the workers:
//   by.threads()                   number of threads that may work at once
//   by.share(count, floats, task)  calls task(begin, end) for ranges that together are [0, count),
//                                  possibly concurrently, and returns when all calls have returned;
//                                  an item is work on about `floats` floats
// The bits depend neither on `by` nor on the division, because no chain of G3 is divided.
#include "gpu/canonical/kernels.h"
#include "gpu/canonical/shapes.h"

namespace es::gpu {
namespace {

// One thread does all the work.
struct Alone {
  int threads() const { return 1; }
  template <class Task>
  void share(std::int64_t count, std::int64_t, Task&& task) const {
    task(std::int64_t{0}, count);
  }
};

// Threads do not divide a block of columns: a kernel goes down the rows with all chains of the
// block at once, and needs that many chains to keep the processor busy.
constexpr std::int64_t kColumnBlock = 64;

// Plain sums over fewer floats take only a few microseconds, like two calls of helper threads, so
// one thread computes them.
constexpr std::int64_t kSumAloneFloats = 1 << 17;

// Returns whether rows[cols] should be divided by columns and not by runs. That is so if the
// largest part is then smaller (deep layers have few rows). It is also so if the parts are equal
// and a thread would get one run, because a thread that owns its columns goes through all phases
// without waiting for other threads. With more rows, the operators before and after divide them,
// so a division by columns would move half of the matrix from core to core.
inline bool cut_by_columns(std::int64_t rows, std::int64_t cols, int threads) {
  const std::int64_t runs = run_count(rows);
  const std::int64_t most_runs = ceil_div(runs, threads);
  const std::int64_t blocks = ceil_div(ceil_div(cols, kColumnBlock), threads);
  const std::int64_t most_cols = smaller(cols, blocks * kColumnBlock);
  const std::int64_t by_runs = most_runs * cols, by_columns = most_cols * runs;
  return by_columns < by_runs || (by_columns == by_runs && runs <= threads);
}

// Calls task(begin, end) for ranges of columns; each column is work on `floats` floats.
template <class Workers, class Task>
void share_columns(std::int64_t cols, std::int64_t floats, const Workers& by, Task&& task) {
  by.share(ceil_div(cols, kColumnBlock), floats * kColumnBlock,
           [&](std::int64_t begin, std::int64_t end) {
             task(begin * kColumnBlock, smaller(cols, end * kColumnBlock));
           });
}

// Calls task(begin, end) for ranges of runs.
template <class Workers, class Task>
void share_runs(std::int64_t rows, std::int64_t cols, const Workers& by, Task&& task) {
  by.share(run_count(rows), smaller(kColumnRun, rows) * cols, task);
}

// Calls task(part) for the parts of a matrix that `by` works on concurrently in one phase.
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

// Calls first(part) for all parts of a matrix, then merge(col_begin, col_end), which reads what
// `first` has left for all runs of its columns, and then last(part) if there is one. With a
// division by columns, one thread runs all phases of its columns, so no thread has to wait.
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

// `dx` may have the address of dy.
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

// Computes dtable[rows][c] from dy[count][c], added to `before` if that is not nullptr. The work is
// divided by columns if there are enough of them: rows of the table are not read equally often, but
// columns are.
template <class Workers>
void embedding_bwd(const KernelTable& k, std::int64_t count, std::int64_t c, std::int64_t rows,
                   const std::int32_t* ids, const float* dy, const float* before, float* dtable,
                   float* ws, const Workers& by) {
  k.embedding_sort(count, rows, ids, ws);
  if ((rows + count) * c < kSumAloneFloats) {
    k.embedding_bwd(c, rows, 0, rows, 0, c, dy, ws, before, dtable);
  } else if (c >= kColumnBlock * by.threads()) {
    share_columns(c, rows + count, by, [&](std::int64_t begin, std::int64_t end) {
      k.embedding_bwd(c, rows, 0, rows, begin, end, dy, ws, before, dtable);
    });
  } else {
    by.share(rows, c + count * c / rows, [&](std::int64_t begin, std::int64_t end) {
      k.embedding_bwd(c, rows, begin, end, 0, c, dy, ws, before, dtable);
    });
  }
}

}  // namespace
}  // namespace es::gpu
