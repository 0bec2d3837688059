// Layer norm. Forward: a run of 32 threads normalises a row. Backward: the sums of each run of 64
// rows (LayerNormSums), their sums over all runs, which are the gradients of the parameters, and
// then the gradient of each row (LayerNormInput).
#include "gpu/canonical/norm_math.h"
#include "gpu/cuda/kernels/columns.h"
#include "gpu/cuda/kernels/rows.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// --- Forward pass.
struct LayerNormForward {
  static constexpr unsigned kThreads = kRowThreads;
  using Shared = OnlyRuns;
  std::int64_t rows, c;
  const float *x, *gamma, *beta;
  float eps;
  float *y, *mean, *istd;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t row = my_row(block);
    if (row >= rows) return;
    const float* const from = x + row * c;
    const float m =
        run_sum64(block, c, [&](std::int64_t i, float sum) { return sum + from[i]; }) * recip(c);
    const float squares = run_sum64(
        block, c, [&](std::int64_t i, float sum) { return fma(from[i] - m, from[i] - m, sum); });
    const float inverse = inverse_deviation(squares * recip(c), eps);
    write_row(block, c, y + row * c,
              [&](std::int64_t i) { return fma((from[i] - m) * inverse, gamma[i], beta[i]); });
    if (block.thread() % 32 == 0) {
      mean[row] = m;
      istd[row] = inverse;
    }
  }
};

void layer_norm_fwd(Stream stream, std::int64_t rows, std::int64_t c, const float* x,
                    const float* gamma, const float* beta, float eps, float* y, float* mean,
                    float* istd) {
  launch(stream, {.x = blocks_of_rows(rows)},
         LayerNormForward{rows, c, x, gamma, beta, eps, y, mean, istd});
}

// --- Backward pass. This is its input.
struct LayerNormBackward {
  std::int64_t rows, c;
  const float *x, *dy, *mean, *istd, *gamma;
};

// Sums of dy * h, then of dy, over each run: ws[2][runs][c].
struct LayerNormSums {
  static constexpr unsigned kThreads = 128;
  using Shared = NoShared;
  LayerNormBackward n;
  float* ws;
  struct Row {
    float x, dy, mean, istd;
  };

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t at = thread_in_grid(*this, block), size = run_count(n.rows) * n.c;
    if (at >= size) return;
    const RunColumn mine = run_column(at, n.c);
    float product = 0.0f, sum = 0.0f;
    walk_run<8>(
        run_rows(n.rows, mine.run),
        [&](std::int64_t r) {
          const std::int64_t row = mine.run * kColumnRun + r, i = row * n.c + mine.col;
          return Row{n.x[i], n.dy[i], n.mean[row], n.istd[row]};
        },
        [&](const Row& row) {
          product = fma(row.dy, (row.x - row.mean) * row.istd, product);
          sum = sum + row.dy;
        });
    ws[at] = product;
    ws[size + at] = sum;
  }
};

struct LayerNormInput {
  static constexpr unsigned kThreads = kRowThreads;
  using Shared = OnlyRuns;
  LayerNormBackward n;
  float* dx;  // may be equal to dy

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t row = my_row(block);
    if (row >= n.rows) return;
    const float *const x = n.x + row * n.c, *const dy = n.dy + row * n.c;
    const float mean = n.mean[row], istd = n.istd[row];
    const auto h = [&](std::int64_t i) { return (x[i] - mean) * istd; };
    const auto t = [&](std::int64_t i) { return dy[i] * n.gamma[i]; };
    const float c1 =
        run_sum64(block, n.c, [&](std::int64_t i, float sum) { return sum + t(i); }) * recip(n.c);
    const float c2 =
        run_sum64(block, n.c, [&](std::int64_t i, float sum) { return fma(t(i), h(i), sum); }) *
        recip(n.c);
    write_row(block, n.c, dx + row * n.c,
              [&](std::int64_t i) { return layer_norm_input_gradient(t(i), h(i), istd, c1, c2); });
  }
};

std::size_t layer_norm_bwd_workspace_floats(std::int64_t rows, std::int64_t c) {
  const std::int64_t runs = run_count(rows);
  return static_cast<std::size_t>(2 * (runs + level_rows(runs)) * c);
}

void layer_norm_bwd(Stream stream, std::int64_t rows, std::int64_t c, const float* x,
                    const float* dy, const float* mean, const float* istd, const float* gamma,
                    float* dx, float* dgamma, float* dbeta, float* ws) {
  const LayerNormBackward n{rows, c, x, dy, mean, istd, gamma};
  const std::int64_t runs = run_count(rows);
  launch(stream, {.x = blocks_for<LayerNormSums>(runs * c)}, LayerNormSums{n, ws});
  // The sums for gamma and for beta are two matrices that follow each other, so one launch folds a
  // level of both.
  const FewRows few = fold_to_few(stream, 2, runs, c, ws, ws + 2 * runs * c);
  sum_runs(stream, 1, few.rows, c, 1.0f, few.p, dgamma);
  sum_runs(stream, 1, few.rows, c, 1.0f, few.p + few.rows * c, dbeta);
  // This kernel comes last, because dx may have the address of dy, which LayerNormSums reads.
  launch(stream, {.x = blocks_of_rows(rows)}, LayerNormInput{n, dx});
}

}  // namespace

void add_layer_norm(DeviceKernels& kernels) {
  kernels.layer_norm_fwd = layer_norm_fwd;
  kernels.layer_norm_bwd_workspace_floats = layer_norm_bwd_workspace_floats;
  kernels.layer_norm_bwd = layer_norm_bwd;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
