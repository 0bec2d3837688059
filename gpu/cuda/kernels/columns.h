#pragma once
// COLSUM (G3 in docs/reference/operators.md) for GPUs. A thread sums one column of one run of 64
// rows, and every level of runs is a launch.
#include "gpu/canonical/shapes.h"
#include "gpu/cuda/kernels/pack.h"
#include "gpu/cuda/kernels/walk.h"
#include "gpu/cuda/launch.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// Returns the chain of additions from +0 of one column over `count` rows, at most 64, that are
// `stride` floats apart.
ES_HD inline float sum_run(std::int64_t count, std::int64_t stride, const float* x) {
  float sum = 0.0f;
  walk_run<32>(
      count, [&](std::int64_t r) { return x[r * stride]; },
      [&](float value) { sum = sum + value; });
  return sum;
}

// The run and the column of a thread.
struct RunColumn {
  std::int64_t run, col;
};
ES_HD inline RunColumn run_column(std::int64_t thread, std::int64_t cols) {
  const auto at = static_cast<std::uint32_t>(thread), width = static_cast<std::uint32_t>(cols);
  return {at / width, at % width};
}

// One level of COLSUM of `matrices` matrices [rows][cols] that follow each other, from `in` to
// out[matrices][runs][cols]. The last level, which has one run, adds its chain to +0 and multiplies
// by `factor`.
struct SumRuns {
  static constexpr unsigned kThreads = 128;
  using Shared = NoShared;
  std::int64_t matrices, rows, cols;
  float factor;
  const float* in;
  float* out;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t at = thread_in_grid(*this, block), runs = run_count(rows);
    if (at >= matrices * runs * cols) return;
    const auto line = static_cast<std::uint32_t>(at) / static_cast<std::uint32_t>(cols);
    const auto col = static_cast<std::uint32_t>(at) % static_cast<std::uint32_t>(cols);
    const std::uint32_t matrix = line / static_cast<std::uint32_t>(runs);
    const std::uint32_t run = line % static_cast<std::uint32_t>(runs);
    const float sum =
        sum_run(run_rows(rows, run), cols, in + (matrix * rows + run * kColumnRun) * cols + col);
    out[at] = runs == 1 ? (0.0f + sum) * factor : sum;
  }
};

inline void sum_runs(Stream stream, std::int64_t matrices, std::int64_t rows, std::int64_t cols,
                     float factor, const float* in, float* out) {
  const std::int64_t threads = matrices * run_count(rows) * cols;
  launch(stream, {.x = numbered_blocks_for<SumRuns>(threads)},
         SumRuns{matrices, rows, cols, factor, in, out});
}

// Returns the number of floats of all levels that fold `rows` rows of one column to at most 64.
inline std::int64_t level_rows(std::int64_t rows) {
  std::int64_t sum = 0;
  while (rows > kColumnRun) sum += rows = run_count(rows);
  return sum;
}

// A matrix of at most 64 rows.
struct FewRows {
  const float* p;
  std::int64_t rows;
};
// Computes levels of COLSUM until every matrix has at most 64 rows. `levels` has matrices *
// level_rows(rows) * cols floats.
inline FewRows fold_to_few(Stream stream, std::int64_t matrices, std::int64_t rows,
                           std::int64_t cols, const float* in, float* levels) {
  while (rows > kColumnRun) {
    sum_runs(stream, matrices, rows, cols, 1.0f, in, levels);
    rows = run_count(rows);
    in = levels;
    levels += matrices * rows * cols;
  }
  return {in, rows};
}

// out[matrices][cols] = COLSUM of each matrix, times `factor`. The workspace is that of
// fold_to_few().
inline void sum_columns(Stream stream, std::int64_t matrices, std::int64_t rows, std::int64_t cols,
                        float factor, const float* x, float* out, float* ws) {
  const FewRows few = fold_to_few(stream, matrices, rows, cols, x, ws);
  sum_runs(stream, matrices, few.rows, cols, factor, few.p, out);
}

}  // namespace
}  // namespace es::gpu::cuda::ES_CUDA_SPACE
