// Column sums and batch norm. Sums are computed by thread (run of 64 rows, column). Values for each
// element are written in packs of columns.
#include "gpu/canonical/norm_math.h"
#include "gpu/cuda/kernels/columns.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

std::size_t colsum_workspace_floats(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(level_rows(rows) * cols);
}

void colsum(Stream stream, std::int64_t rows, std::int64_t cols, const float* x, float* out,
            float* ws) {
  sum_columns(stream, 1, rows, cols, 1.0f, x, out, ws);
}

// --- Batch norm.
//
// The workspace: that of bn_workspace(), then the levels of sums over its runs. The backward pass
// needs two sets of levels at once.
std::size_t bn_workspace_floats(std::int64_t rows, std::int64_t c) {
  const std::int64_t runs = run_count(rows);
  return static_cast<std::size_t>((1 + 3 * runs + 2 * (1 + level_rows(runs))) * c);
}
float* bn_levels(std::int64_t rows, std::int64_t c, float* ws) {
  return ws + (1 + 3 * run_count(rows)) * c;
}

// --- Training, phase 1: computes the sum, the mean and the squared deviations of each run. A
// thread keeps the 64 values of a whole run in registers, so x is read once. Their loads have no
// conditions: with them the assembler makes each addition wait for its load before the next load.
// The rows of a shorter run, which is the last one, are read twice.
struct BnStatistics {
  static constexpr unsigned kThreads = 128;
  using Shared = NoShared;
  std::int64_t rows, c;
  const float* x;
  BnWorkspace ws;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t at = thread_in_grid(*this, block);
    if (at >= run_count(rows) * c) return;
    const RunColumn mine = run_column(at, c);
    const std::int64_t count = run_rows(rows, mine.run);
    const float* const from = x + mine.run * kColumnRun * c + mine.col;
    if (count == kColumnRun) {
      float v[kColumnRun];
      ES_UNROLL
      for (int r = 0; r < kColumnRun; ++r) v[r] = from[r * c];
      store(at, kColumnRun, [&](auto chain) {
        ES_UNROLL
        for (int r = 0; r < kColumnRun; ++r) chain(v[r]);
      });
    } else {
      store(at, count, [&](auto chain) {
        walk_run<8>(
            count, [&](std::int64_t r) { return from[r * c]; }, chain);
      });
    }
  }

  // walk(chain) calls chain(value) for the rows of the run, in ascending order.
  template <class Walk>
  ES_HD void store(std::int64_t at, std::int64_t count, Walk walk) const {
    float sum = 0.0f, squares = 0.0f;
    walk([&](float value) { sum = sum + value; });
    const float mean = sum * recip(count);
    walk([&](float value) {
      const float d = value - mean;
      squares = fma(d, d, squares);
    });
    ws.sum[at] = sum;
    ws.mean[at] = mean;
    ws.squares[at] = squares;
  }
};

// --- Training, phase 2: the runs are merged. bn_merge() chooses the kernels by their number.
//
// Returns the squared deviations from the mean of all rows, summed over at most 64 runs beginning
// with `first`.
ES_HD inline float moved_squares(const BnForward& bn, const BnWorkspace& ws, std::int64_t first,
                                 std::int64_t count, std::int64_t col) {
  struct Row {
    float squares, mean, count;
  };
  const float mean = bn.mean[col];
  float sum = 0.0f;
  walk_run<16>(
      count,
      [&](std::int64_t r) {
        const std::int64_t run = first + r, i = run * bn.c + col;
        return Row{ws.squares[i], ws.mean[i], static_cast<float>(run_rows(bn.rows, run))};
      },
      [&](const Row& row) {
        sum = sum + bn_moved_squares(row.squares, row.count, row.mean, mean);
      });
  return sum;
}

// For kernels with a thread for each column. More registers would not make a chain of 64 faster.
constexpr unsigned kColumnThreads = 64, kColumnBlocksAtOnce = 8;

// Computes the mean of a column from at most 64 sums.
struct BnMean {
  static constexpr unsigned kThreads = kColumnThreads, kBlocksAtOnce = kColumnBlocksAtOnce;
  using Shared = NoShared;
  BnForward bn;
  FewRows sums;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t col = thread_in_grid(*this, block);
    if (col < bn.c) bn.mean[col] = sum_run(sums.rows, bn.c, sums.p + col) * recip(bn.rows);
  }
};

// Computes the first level of the sum of squared deviations: to[runs of 64 runs][c].
struct BnMovedSquares {
  static constexpr unsigned kThreads = kColumnThreads, kBlocksAtOnce = kColumnBlocksAtOnce;
  using Shared = NoShared;
  BnForward bn;
  BnWorkspace ws;
  float* to;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t at = thread_in_grid(*this, block), runs = run_count(bn.rows);
    if (at >= run_count(runs) * bn.c) return;
    const RunColumn mine = run_column(at, bn.c);
    to[at] = moved_squares(bn, ws, mine.run * kColumnRun, run_rows(runs, mine.run), mine.col);
  }
};

// Computes all other results of a column from at most 64 sums of squared deviations.
struct BnFinish {
  static constexpr unsigned kThreads = kColumnThreads, kBlocksAtOnce = kColumnBlocksAtOnce;
  using Shared = NoShared;
  BnForward bn;
  float* a;
  FewRows squares;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t col = thread_in_grid(*this, block);
    if (col < bn.c) {
      a[col] = bn_finish_column(bn, col, sum_run(squares.rows, bn.c, squares.p + col));
    }
  }
};

// Does all of this at once if there are at most 64 runs.
struct BnMergeFew {
  static constexpr unsigned kThreads = kColumnThreads, kBlocksAtOnce = kColumnBlocksAtOnce;
  using Shared = NoShared;
  BnForward bn;
  BnWorkspace ws;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t col = thread_in_grid(*this, block), runs = run_count(bn.rows);
    if (col >= bn.c) return;
    bn.mean[col] = sum_run(runs, bn.c, ws.sum + col) * recip(bn.rows);
    ws.a[col] = bn_finish_column(bn, col, moved_squares(bn, ws, 0, runs, col));
  }
};

void bn_merge(Stream stream, const BnForward& bn) {
  const BnWorkspace ws = bn_workspace(bn.rows, bn.c, bn.ws);
  float* const levels = bn_levels(bn.rows, bn.c, bn.ws);
  const std::int64_t runs = run_count(bn.rows), groups = run_count(runs);
  // At most 64 runs are at most 4,096 rows. For these one launch does the whole phase.
  if (groups == 1) {
    return launch(stream, {.x = blocks_for<BnMergeFew>(bn.c)}, BnMergeFew{bn, ws});
  }
  const FewRows sums = fold_to_few(stream, 1, runs, bn.c, ws.sum, levels);
  launch(stream, {.x = blocks_for<BnMean>(bn.c)}, BnMean{bn, sums});
  launch(stream, {.x = numbered_blocks_for<BnMovedSquares>(groups * bn.c)},
         BnMovedSquares{bn, ws, levels});
  // BnMovedSquares has overwritten the levels of the sums, which only BnMean needed.
  const FewRows squares = fold_to_few(stream, 1, groups, bn.c, levels, levels + groups * bn.c);
  launch(stream, {.x = blocks_for<BnFinish>(bn.c)}, BnFinish{bn, ws.a, squares});
}

// --- Training, phase 3: every element is normalised.
//
// The division of a matrix's elements among threads: a thread has a pack of columns and every
// `step`th row, so that all threads together read contiguous memory.
struct RowSteps {
  std::int64_t rows, packs, step;
};
RowSteps row_steps(std::int64_t rows, std::int64_t packs) {
  // Threads wanted on a GPU; most rows of one thread.
  constexpr std::int64_t kThreadsWanted = 1 << 18, kRowsMost = 8;
  // A thread with several rows loads the factors of its columns once, but a GPU needs enough
  // threads. An element does not depend on this division.
  const std::int64_t rows_each = larger(1, smaller(kRowsMost, rows * packs / kThreadsWanted));
  return {rows, packs, ceil_div(rows, rows_each)};
}
// Returns the first row of a thread, and its pack.
ES_HD inline RunColumn first_row(const RowSteps& s, std::int64_t thread) {
  return run_column(thread, s.packs);
}

template <int kWidth>
struct BnApply {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  RowSteps steps;
  const float *x, *mean, *a, *beta;
  Activation act;
  float* y;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t at = thread_in_grid(*this, block);
    if (at >= steps.step * steps.packs) return;
    const RunColumn mine = first_row(steps, at);
    const std::int64_t col = mine.col * kWidth;
    const auto m = load_pack<kWidth>(mean + col), factor = load_pack<kWidth>(a + col),
               offset = load_pack<kWidth>(beta + col);
    for (std::int64_t r = mine.run; r < steps.rows; r += steps.step) {
      const std::int64_t i = (r * steps.packs + mine.col) * kWidth;
      auto v = load_pack<kWidth>(x + i);
      ES_UNROLL
      for (int j = 0; j < kWidth; ++j) {
        v.v[j] = bn_output(v.v[j], m.v[j], factor.v[j], offset.v[j], act);
      }
      store_pack(y + i, v);
    }
  }
};

void bn_apply(Stream stream, std::int64_t rows, std::int64_t c, const float* x, const float* mean,
              const float* a, const float* beta, Activation act, float* y) {
  with_pack_width(
      c,
      [&](auto width) {
        const RowSteps steps = row_steps(rows, c / width);
        launch(stream, {.x = numbered_blocks_for<BnApply<width>>(steps.step * steps.packs)},
               BnApply<width>{steps, x, mean, a, beta, act, y});
      },
      x, mean, a, beta, y);
}

void bn_train_fwd(Stream stream, const BnForward& bn) {
  const BnWorkspace ws = bn_workspace(bn.rows, bn.c, bn.ws);
  launch(stream, {.x = numbered_blocks_for<BnStatistics>(run_count(bn.rows) * bn.c)},
         BnStatistics{bn.rows, bn.c, bn.x, ws});
  bn_merge(stream, bn);
  bn_apply(stream, bn.rows, bn.c, bn.x, bn.mean, ws.a, bn.beta, bn.act, bn.y);
}

// --- Evaluation, with the running statistics: gamma / sqrt(running_var + eps), then phase 3.
struct BnEvalScale {
  static constexpr unsigned kThreads = kColumnThreads;
  using Shared = NoShared;
  std::int64_t c;
  const float *gamma, *running_var;
  float eps;
  float* a;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t col = thread_in_grid(*this, block);
    if (col < c) a[col] = gamma[col] * inverse_deviation(running_var[col], eps);
  }
};

void bn_eval(Stream stream, std::int64_t rows, std::int64_t c, const float* x, const float* gamma,
             const float* beta, float eps, const float* running_mean, const float* running_var,
             Activation act, float* y, float* ws) {
  launch(stream, {.x = blocks_for<BnEvalScale>(c)}, BnEvalScale{c, gamma, running_var, eps, ws});
  bn_apply(stream, rows, c, x, running_mean, ws, beta, act, y);
}

// --- Backward pass, phase 1: computes the sums of g and of g * d over each run.
struct BnBackwardSums {
  static constexpr unsigned kThreads = 128;
  using Shared = NoShared;
  BnBackward bn;
  BnWorkspace ws;
  struct Row {
    float x, dy;
  };

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t at = thread_in_grid(*this, block);
    if (at >= run_count(bn.rows) * bn.c) return;
    const RunColumn mine = run_column(at, bn.c);
    const std::int64_t first = mine.run * kColumnRun * bn.c + mine.col;
    const float mean = bn.mean[mine.col], beta = bn.beta[mine.col];
    const float a = bn.gamma[mine.col] * bn.istd[mine.col];
    float gradient = 0.0f, product = 0.0f;
    walk_run<16>(
        run_rows(bn.rows, mine.run),
        [&](std::int64_t r) {
          return Row{bn.x[first + r * bn.c], bn.dy[first + r * bn.c]};
        },
        [&](const Row& row) {
          const BnBackwardElement e = bn_backward_element(row.x, row.dy, mean, a, beta, bn.act);
          gradient = gradient + e.g;
          product = fma(e.g, e.d, product);
        });
    ws.gradient[at] = gradient;
    ws.product[at] = product;
  }
};

// --- Backward pass, phase 2: computes dgamma, dbeta and the factors that all gradients of the
// input use, from at most 64 sums of each.
struct BnBackwardMerge {
  static constexpr unsigned kThreads = kColumnThreads, kBlocksAtOnce = kColumnBlocksAtOnce;
  using Shared = NoShared;
  BnBackward bn;
  FewRows sums;           // two matrices: the sums of g, and of g * d
  float* shared_factors;  // [2][c]

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t col = thread_in_grid(*this, block);
    if (col >= bn.c) return;
    const float gradient = sum_run(sums.rows, bn.c, sums.p + col);
    const float product = sum_run(sums.rows, bn.c, sums.p + sums.rows * bn.c + col);
    const BnBackwardColumn column = bn_finish_backward(bn, col, gradient, product);
    shared_factors[col] = column.gradient;
    shared_factors[bn.c + col] = column.product;
  }
};

// --- Backward pass, phase 3: the gradients of the input.
template <int kWidth>
struct BnInputGradient {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  RowSteps steps;
  BnBackward bn;
  const float* factors;  // [2][c], from BnBackwardMerge

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t at = thread_in_grid(*this, block);
    if (at >= steps.step * steps.packs) return;
    const RunColumn mine = first_row(steps, at);
    const std::int64_t col = mine.col * kWidth;
    auto a = load_pack<kWidth>(bn.gamma + col);
    const auto istd = load_pack<kWidth>(bn.istd + col), mean = load_pack<kWidth>(bn.mean + col),
               beta = load_pack<kWidth>(bn.beta + col), gradient = load_pack<kWidth>(factors + col),
               product = load_pack<kWidth>(factors + bn.c + col);
    ES_UNROLL
    for (int j = 0; j < kWidth; ++j) a.v[j] = a.v[j] * istd.v[j];
    for (std::int64_t r = mine.run; r < steps.rows; r += steps.step) {
      const std::int64_t i = (r * steps.packs + mine.col) * kWidth;
      const auto x = load_pack<kWidth>(bn.x + i);
      auto v = load_pack<kWidth>(bn.dy + i);
      ES_UNROLL
      for (int j = 0; j < kWidth; ++j) {
        const BnBackwardElement e =
            bn_backward_element(x.v[j], v.v[j], mean.v[j], a.v[j], beta.v[j], bn.act);
        v.v[j] = bn_input_gradient(e, a.v[j], {gradient.v[j], product.v[j]});
      }
      store_pack(bn.dx + i, v);
    }
  }
};

void bn_bwd(Stream stream, const BnBackward& bn) {
  const BnWorkspace ws = bn_workspace(bn.rows, bn.c, bn.ws);
  float* const levels = bn_levels(bn.rows, bn.c, bn.ws);
  const std::int64_t runs = run_count(bn.rows);
  launch(stream, {.x = numbered_blocks_for<BnBackwardSums>(runs * bn.c)}, BnBackwardSums{bn, ws});
  // The two matrices of sums follow each other, and so do their levels.
  const FewRows sums = fold_to_few(stream, 2, runs, bn.c, ws.gradient, levels + 2 * bn.c);
  launch(stream, {.x = blocks_for<BnBackwardMerge>(bn.c)}, BnBackwardMerge{bn, sums, levels});
  with_pack_width(
      bn.c,
      [&](auto width) {
        const RowSteps steps = row_steps(bn.rows, bn.c / width);
        launch(stream, {.x = numbered_blocks_for<BnInputGradient<width>>(steps.step * steps.packs)},
               BnInputGradient<width>{steps, bn, levels});
      },
      bn.x, bn.dy, bn.dx, bn.mean, bn.istd, bn.gamma, bn.beta, levels);
}

}  // namespace

void add_norm(DeviceKernels& kernels) {
  kernels.colsum_workspace_floats = colsum_workspace_floats;
  kernels.colsum = colsum;
  kernels.bn_workspace_floats = bn_workspace_floats;
  kernels.bn_train_fwd = bn_train_fwd;
  kernels.bn_eval = bn_eval;
  kernels.bn_bwd = bn_bwd;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
