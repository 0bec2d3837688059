// Layer norm. Forward: 16 or 32 threads normalise a row (RowPacks). Backward: the sums of each run
// of 64 rows (LayerNormSums), their sums over all runs, which are the gradients of the parameters,
// and then the gradient of each row (LayerNormInput).
#include "gpu/canonical/norm_math.h"
#include "gpu/cuda/kernels/columns.h"
#include "gpu/cuda/kernels/rows.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// --- Forward pass.
template <int kWidth>
struct LayerNormForward {
  static constexpr unsigned kThreads = kRowThreads;
  using Shared = OnlyRuns;
  std::int64_t rows, c;
  const float *x, *gamma, *beta;
  float eps;
  float *y, *mean, *istd;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const RowPacks<kWidth> packs(block, rows);
    if (packs.none()) return;
    using Values = Pack<kWidth>;
    const std::int64_t begin = packs.row() * c;
    const auto load = [&](std::int64_t i) { return load_pack<kWidth>(x + begin + i); };
    const float m = packs.sum(block, c, load, [](const Values& v, int j, float sum) {
      return sum + v.v[j];
    }) * recip(c);
    const float squares = packs.sum(block, c, load, [&](const Values& v, int j, float sum) {
      return fma(v.v[j] - m, v.v[j] - m, sum);
    });
    const float inverse = inverse_deviation(squares * recip(c), eps);
    packs.write(block, c, y + begin, [&](std::int64_t i) {
      Values v = load(i);
      const Values g = load_pack<kWidth>(gamma + i), b = load_pack<kWidth>(beta + i);
      ES_UNROLL
      for (int j = 0; j < kWidth; ++j) v.v[j] = fma((v.v[j] - m) * inverse, g.v[j], b.v[j]);
      return v;
    });
    packs.put(block, mean, m);
    packs.put(block, istd, inverse);
  }
};

void layer_norm_fwd(Stream stream, std::int64_t rows, std::int64_t c, const float* x,
                    const float* gamma, const float* beta, float eps, float* y, float* mean,
                    float* istd) {
  with_row_packs(
      c,
      [&](auto width) {
        launch(stream, {.x = RowPacks<width>::blocks(rows)},
               LayerNormForward<width>{rows, c, x, gamma, beta, eps, y, mean, istd});
      },
      x, gamma, beta, y);
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

template <int kWidth>
struct LayerNormInput {
  static constexpr unsigned kThreads = kRowThreads;
  using Shared = OnlyRuns;
  LayerNormBackward n;
  float* dx;  // may be equal to dy

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const RowPacks<kWidth> packs(block, n.rows);
    if (packs.none()) return;
    const std::int64_t begin = packs.row() * n.c;
    const float mean = n.mean[packs.row()], istd = n.istd[packs.row()];
    struct Values {
      Pack<kWidth> x, dy, gamma;
    };
    const auto load = [&](std::int64_t i) {
      return Values{load_pack<kWidth>(n.x + begin + i), load_pack<kWidth>(n.dy + begin + i),
                    load_pack<kWidth>(n.gamma + i)};
    };
    const auto h = [&](const Values& v, int j) { return (v.x.v[j] - mean) * istd; };
    const auto t = [&](const Values& v, int j) { return v.dy.v[j] * v.gamma.v[j]; };
    const float c1 = packs.sum(block, n.c, load, [&](const Values& v, int j, float sum) {
      return sum + t(v, j);
    }) * recip(n.c);
    const float c2 = packs.sum(block, n.c, load, [&](const Values& v, int j, float sum) {
      return fma(t(v, j), h(v, j), sum);
    }) * recip(n.c);
    packs.write(block, n.c, dx + begin, [&](std::int64_t i) {
      const Values v = load(i);
      Pack<kWidth> out;
      ES_UNROLL
      for (int j = 0; j < kWidth; ++j) {
        out.v[j] = layer_norm_input_gradient(t(v, j), h(v, j), istd, c1, c2);
      }
      return out;
    });
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
  launch(stream, {.x = numbered_blocks_for<LayerNormSums>(runs * c)}, LayerNormSums{n, ws});
  // The sums for gamma and for beta are two matrices that follow each other, so one launch folds a
  // level of both.
  const FewRows few = fold_to_few(stream, 2, runs, c, ws, ws + 2 * runs * c);
  sum_runs(stream, 1, few.rows, c, 1.0f, few.p, dgamma);
  sum_runs(stream, 1, few.rows, c, 1.0f, few.p + few.rows * c, dbeta);
  // This kernel comes last, because dx may have the address of dy, which LayerNormSums reads.
  with_row_packs(
      c,
      [&](auto width) {
        launch(stream, {.x = RowPacks<width>::blocks(rows)}, LayerNormInput<width>{n, dx});
      },
      x, dy, gamma, dx);
}

}  // namespace

void add_layer_norm(DeviceKernels& kernels) {
  kernels.layer_norm_fwd = layer_norm_fwd;
  kernels.layer_norm_bwd_workspace_floats = layer_norm_bwd_workspace_floats;
  kernels.layer_norm_bwd = layer_norm_bwd;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
