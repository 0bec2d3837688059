// Reductions along rows and down columns, and running sums.
#include "gpu/canonical/fold_math.h"
#include "gpu/cuda/kernels/columns.h"
#include "gpu/cuda/kernels/rows.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

struct SumRow {
  static constexpr unsigned kThreads = kRowThreads;
  using Shared = OnlyRuns;
  std::int64_t rows, n;
  const float* x;
  float* y;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t row = my_row(block);
    if (row >= rows) return;
    const float* const from = x + row * n;
    const float sum =
        run_sum64(block, n, [&](std::int64_t i, float lane) { return lane + from[i]; });
    if (block.thread() % 32 == 0) y[row] = sum;
  }
};

void sum_rows(Stream stream, std::int64_t rows, std::int64_t n, const float* x, float* y) {
  launch(stream, {.x = blocks_of_rows(rows)}, SumRow{rows, n, x, y});
}

// Thread t of a run has the lanes t and t + 32.
template <Fold kFold>
struct FoldRow {
  static constexpr unsigned kThreads = kRowThreads;
  using Shared = OnlyRuns;
  std::int64_t rows, n;
  const float* x;
  float* y;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t row = my_row(block);
    if (row >= rows) return;
    const float* const from = x + row * n;
    float low = fold_identity<kFold>(), high = low;
    for (std::int64_t i = block.thread() % 32; i < n; i += kSumLanes) {
      low = combined<kFold>(low, from[i]);
      if (i + 32 < n) high = combined<kFold>(high, from[i + 32]);
    }
    // The same folds by halves as in the scalar class: first lane j + 32, then j + 16, and so on.
    float v = combined<kFold>(low, high);
    for (unsigned half = 16; half > 0; half /= 2) v = combined<kFold>(v, block.down(v, half));
    if (block.thread() % 32 == 0) y[row] = folded<kFold>(v);
  }
};

void fold_rows(Stream stream, Fold fold, std::int64_t rows, std::int64_t n, const float* x,
               float* y) {
  with_fold(fold, [=](auto kind) {
    launch(stream, {.x = blocks_of_rows(rows)}, FoldRow<decltype(kind)::value>{rows, n, x, y});
  });
}

// A thread for each column of each matrix.
template <Fold kFold>
struct FoldColumn {
  static constexpr unsigned kThreads = 128;
  using Shared = NoShared;
  std::int64_t matrices, rows, cols;
  const float* x;
  float* y;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t at = thread_in_grid(*this, block);
    if (at >= matrices * cols) return;
    const RunColumn mine = run_column(at, cols);
    const float* const from = x + mine.run * rows * cols + mine.col;
    float v = fold_identity<kFold>();
    for (std::int64_t r = 0; r < rows; ++r) v = combined<kFold>(v, from[r * cols]);
    y[at] = folded<kFold>(v);
  }
};

void fold_columns(Stream stream, Fold fold, std::int64_t matrices, std::int64_t rows,
                  std::int64_t cols, const float* x, float* y) {
  with_fold(fold, [=](auto kind) {
    using Kernel = FoldColumn<decltype(kind)::value>;
    launch(stream, {.x = blocks_for<Kernel>(matrices * cols)}, Kernel{matrices, rows, cols, x, y});
  });
}

std::size_t sum_matrices_workspace_floats(std::int64_t matrices, std::int64_t rows,
                                          std::int64_t cols) {
  return static_cast<std::size_t>(matrices * level_rows(rows) * cols);
}

void sum_matrices(Stream stream, std::int64_t matrices, std::int64_t rows, std::int64_t cols,
                  const float* x, float* y, float* ws) {
  sum_columns(stream, matrices, rows, cols, 1.0f, x, y, ws);
}

// A thread for each row.
struct BestIndex {
  static constexpr unsigned kThreads = 128;
  using Shared = NoShared;
  Fold fold;
  std::int64_t rows, n;
  const float* x;
  std::int32_t* y;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t row = thread_in_grid(*this, block);
    if (row < rows) y[row] = best_index(fold, n, x + row * n);
  }
};

void best_indices(Stream stream, Fold fold, std::int64_t rows, std::int64_t n, const float* x,
                  std::int32_t* y) {
  launch(stream, {.x = blocks_for<BestIndex>(rows)}, BestIndex{fold, rows, n, x, y});
}

// A thread for each chain.
struct RunningSum {
  static constexpr unsigned kThreads = 128;
  using Shared = NoShared;
  std::int64_t count, n, inner;
  bool reverse;
  const float* x;
  float* y;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t at = thread_in_grid(*this, block);
    if (at >= count * inner) return;
    const RunColumn mine = run_column(at, inner);
    const std::int64_t first = mine.run * n * inner + mine.col;
    running_sum(n, inner, reverse, x + first, y + first);
  }
};

void running_sums(Stream stream, std::int64_t count, std::int64_t n, std::int64_t inner,
                  bool reverse, const float* x, float* y) {
  launch(stream, {.x = blocks_for<RunningSum>(count * inner)},
         RunningSum{count, n, inner, reverse, x, y});
}

}  // namespace

void add_fold(DeviceKernels& kernels) {
  kernels.sum_rows = sum_rows;
  kernels.fold_rows = fold_rows;
  kernels.fold_columns = fold_columns;
  kernels.sum_matrices_workspace_floats = sum_matrices_workspace_floats;
  kernels.sum_matrices = sum_matrices;
  kernels.best_indices = best_indices;
  kernels.running_sums = running_sums;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
