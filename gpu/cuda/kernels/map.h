#pragma once
// Kernels with a thread for each element or pack: a function of one element of two arrays, and
// filling with zeros.
#include "gpu/cuda/kernels/pack.h"
#include "gpu/cuda/launch.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// y[i] = f(a[i], b[i]); y may be equal to a or b.
template <int kWidth, class Function>
struct Map {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  std::int64_t packs;
  const float *a, *b;
  float* y;
  Function f;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block);
    if (i >= packs) return;
    // Both packs are loaded before the store, because y may be one of the operands.
    Pack<kWidth> p = load_pack<kWidth>(a + i * kWidth);
    const Pack<kWidth> q = load_pack<kWidth>(b + i * kWidth);
    ES_UNROLL
    for (int j = 0; j < kWidth; ++j) p.v[j] = f(p.v[j], q.v[j]);
    store_pack(y + i * kWidth, p);
  }
};

template <class Function>
void map(Stream stream, std::int64_t n, const float* a, const float* b, float* y, Function f) {
  with_pack_width(
      n,
      [&](auto width) {
        const Map<width, Function> kernel{n / width, a, b, y, f};
        launch(stream, {.x = blocks_for<Map<width, Function>>(kernel.packs)}, kernel);
      },
      a, b, y);
}

struct FillZero {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  std::int64_t words;
  float* y;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block);
    if (i < words) y[i] = 0.0f;
  }
};

inline void fill_zero(Stream stream, std::int64_t words, float* y) {
  launch(stream, {.x = blocks_for<FillZero>(words)}, FillZero{words, y});
}

}  // namespace
}  // namespace es::gpu::cuda::ES_CUDA_SPACE
