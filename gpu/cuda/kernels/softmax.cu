// Softmax and its gradient. 16 or 32 threads process a row (RowPacks).
#include "gpu/canonical/attention_math.h"
#include "gpu/cuda/kernels/rows.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// EXP is computed twice. That is faster than storing it between its sum and the quotient.
template <int kWidth>
struct SoftmaxForward {
  static constexpr unsigned kThreads = kRowThreads;
  using Shared = OnlyRuns;
  std::int64_t rows, c;
  const float* x;
  float* y;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const RowPacks<kWidth> packs(block, rows);
    if (packs.none()) return;
    const float* const from = x + packs.row() * c;
    const auto load = [&](std::int64_t i) { return load_pack<kWidth>(from + i); };
    const float shift = softmax_shift(packs.max(block, c, from));
    const float scale =
        softmax_scale(packs.sum(block, c, load, [&](const Pack<kWidth>& v, int j, float sum) {
          return sum + canonical_exp(v.v[j] - shift);
        }));
    packs.write(block, c, y + packs.row() * c, [&](std::int64_t i) {
      Pack<kWidth> v = load(i);
      ES_UNROLL
      for (int j = 0; j < kWidth; ++j) v.v[j] = canonical_exp(v.v[j] - shift) * scale;
      return v;
    });
  }
};

void softmax_fwd(Stream stream, std::int64_t rows, std::int64_t c, const float* x, float* y) {
  with_row_packs(
      c,
      [&](auto width) {
        launch(stream, {.x = RowPacks<width>::blocks(rows)}, SoftmaxForward<width>{rows, c, x, y});
      },
      x, y);
}

template <int kWidth>
struct SoftmaxBackward {
  static constexpr unsigned kThreads = kRowThreads;
  using Shared = OnlyRuns;
  std::int64_t rows, c;
  const float *y, *dy;
  float* dx;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const RowPacks<kWidth> packs(block, rows);
    if (packs.none()) return;
    const std::int64_t begin = packs.row() * c;
    struct Values {
      Pack<kWidth> y, dy;
    };
    const auto load = [&](std::int64_t i) {
      return Values{load_pack<kWidth>(y + begin + i), load_pack<kWidth>(dy + begin + i)};
    };
    // dx may have the address of dy: the sum is complete before anything is stored.
    const float total = packs.sum(block, c, load, [](const Values& v, int j, float sum) {
      return fma(v.dy.v[j], v.y.v[j], sum);
    });
    packs.write(block, c, dx + begin, [&](std::int64_t i) {
      Values v = load(i);
      ES_UNROLL
      for (int j = 0; j < kWidth; ++j) v.y.v[j] = v.y.v[j] * (v.dy.v[j] - total);
      return v.y;
    });
  }
};

void softmax_bwd(Stream stream, std::int64_t rows, std::int64_t c, const float* y, const float* dy,
                 float* dx) {
  with_row_packs(
      c,
      [&](auto width) {
        launch(stream, {.x = RowPacks<width>::blocks(rows)},
               SoftmaxBackward<width>{rows, c, y, dy, dx});
      },
      y, dy, dx);
}

}  // namespace

void add_softmax(DeviceKernels& kernels) {
  kernels.softmax_fwd = softmax_fwd;
  kernels.softmax_bwd = softmax_bwd;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
