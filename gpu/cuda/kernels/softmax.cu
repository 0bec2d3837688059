// Softmax and its gradient. A run of 32 threads processes a row.
#include "gpu/canonical/attention_math.h"
#include "gpu/cuda/kernels/rows.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// EXP is computed twice. That is faster than storing it between its sum and the quotient.
struct SoftmaxForward {
  static constexpr unsigned kThreads = kRowThreads;
  using Shared = OnlyRuns;
  std::int64_t rows, c;
  const float* x;
  float* y;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t row = my_row(block);
    if (row >= rows) return;
    const float* const from = x + row * c;
    const float shift = softmax_shift(row_max(block, c, from));
    const float scale = softmax_scale(run_sum64(
        block, c, [&](std::int64_t i, float sum) { return sum + canonical_exp(from[i] - shift); }));
    write_row(block, c, y + row * c,
              [&](std::int64_t i) { return canonical_exp(from[i] - shift) * scale; });
  }
};

void softmax_fwd(Stream stream, std::int64_t rows, std::int64_t c, const float* x, float* y) {
  launch(stream, {.x = blocks_of_rows(rows)}, SoftmaxForward{rows, c, x, y});
}

struct SoftmaxBackward {
  static constexpr unsigned kThreads = kRowThreads;
  using Shared = OnlyRuns;
  std::int64_t rows, c;
  const float *y, *dy;
  float* dx;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t row = my_row(block);
    if (row >= rows) return;
    const float *const p = y + row * c, *const dp = dy + row * c;
    // dx may have the address of dy: the sum is complete before write_row() stores anything.
    const float total =
        run_sum64(block, c, [&](std::int64_t i, float sum) { return fma(dp[i], p[i], sum); });
    write_row(block, c, dx + row * c, [&](std::int64_t i) { return p[i] * (dp[i] - total); });
  }
};

void softmax_bwd(Stream stream, std::int64_t rows, std::int64_t c, const float* y, const float* dy,
                 float* dx) {
  launch(stream, {.x = blocks_of_rows(rows)}, SoftmaxBackward{rows, c, y, dy, dx});
}

}  // namespace

void add_softmax(DeviceKernels& kernels) {
  kernels.softmax_fwd = softmax_fwd;
  kernels.softmax_bwd = softmax_bwd;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
