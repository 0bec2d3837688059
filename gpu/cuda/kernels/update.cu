// Checks and norms of gradients; updates of parameters.
#include "gpu/canonical/update_math.h"
#include "gpu/cuda/kernels/sums.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// Threads that find one all write the same.
template <int kWidth>
struct FindNonFinite {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  std::int64_t packs;
  const float* x;
  std::int32_t* found;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block);
    if (i >= packs) return;
    const auto v = load_pack<kWidth>(x + i * kWidth);
    bool any = false;
    ES_UNROLL
    for (int j = 0; j < kWidth; ++j) any = any || !(absolute(v.v[j]) < kInfinity);
    if (any) *found = 1;
  }
};

void find_non_finite(Stream stream, std::int64_t n, const float* x, std::int32_t* found) {
  with_pack_width(
      n,
      [&](auto width) {
        using Kernel = FindNonFinite<width>;
        launch(stream, {.x = blocks_for<Kernel>(n / width)}, Kernel{n / width, x, found});
      },
      x);
}

// SUM64(x * x) of each chunk of 16,384, by a run of 32 threads.
struct SquaresOfChunks {
  static constexpr unsigned kThreads = 128;
  using Shared = OnlyRuns;
  std::int64_t n;
  const float* x;
  float* to;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t chunk = thread_in_grid(*this, block) / 32, begin = chunk * kSumChunk;
    if (begin >= n) return;
    const float sum =
        run_sum64_chunk(block, begin, smaller(kSumChunk, n - begin),
                        [&](std::int64_t i, float lane) { return fused(x[i], x[i], lane); });
    if (block.thread() % 32 == 0) to[chunk] = sum;
  }
};

// SUM64 of at most 16,384 numbers.
struct SumOfChunks {
  static constexpr unsigned kThreads = 32;
  using Shared = OnlyRuns;
  std::int64_t n;
  const float* x;
  float* to;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const float sum =
        run_sum64_chunk(block, 0, n, [&](std::int64_t i, float lane) { return lane + x[i]; });
    if (block.thread() == 0) *to = sum;
  }
};

std::size_t sum_of_squares_workspace_floats(std::int64_t n) {
  return static_cast<std::size_t>(ceil_div(n, kSumChunk));
}

void sum_of_squares(Stream stream, std::int64_t n, const float* x, float* sum, float* ws) {
  const std::int64_t chunks = ceil_div(n, kSumChunk);
  launch(stream, {.x = blocks_for<SquaresOfChunks>(32 * chunks)},
         SquaresOfChunks{n, x, chunks == 1 ? sum : ws});
  if (chunks != 1) launch(stream, {.x = 1}, SumOfChunks{chunks, ws, sum});
}

template <int kWidth>
struct Adam {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  std::int64_t packs;
  const float* grad_sum;
  float grad_scale;
  AdamStep step;
  float *p, *m, *v;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block) * kWidth;
    if (i >= packs * kWidth) return;
    const auto g = load_pack<kWidth>(grad_sum + i);
    auto pp = load_pack<kWidth>(p + i), mm = load_pack<kWidth>(m + i),
         vv = load_pack<kWidth>(v + i);
    ES_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      adam_update(step, grad_scale, g.v[j], &pp.v[j], &mm.v[j], &vv.v[j]);
    }
    store_pack(p + i, pp);
    store_pack(m + i, mm);
    store_pack(v + i, vv);
  }
};

void adam(Stream stream, std::int64_t n, const float* grad_sum, float grad_scale,
          const AdamStep& step, float* p, float* m, float* v) {
  with_pack_width(
      n,
      [&](auto width) {
        using Kernel = Adam<width>;
        launch(stream, {.x = blocks_for<Kernel>(n / width)},
               Kernel{n / width, grad_sum, grad_scale, step, p, m, v});
      },
      grad_sum, p, m, v);
}

template <int kWidth>
struct Sgd {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  std::int64_t packs;
  const float* grad_sum;
  SgdStep step;
  float *p, *v;  // v: nullptr without momentum

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block) * kWidth;
    if (i >= packs * kWidth) return;
    const auto g = load_pack<kWidth>(grad_sum + i);
    auto pp = load_pack<kWidth>(p + i);
    Pack<kWidth> vv = {};
    if (v != nullptr) vv = load_pack<kWidth>(v + i);
    ES_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      sgd_update(step, g.v[j], &pp.v[j], v == nullptr ? nullptr : &vv.v[j]);
    }
    store_pack(p + i, pp);
    if (v != nullptr) store_pack(v + i, vv);
  }
};

void sgd(Stream stream, std::int64_t n, const float* grad_sum, float grad_scale, float lr,
         float momentum, float weight_decay, bool nesterov, float* p, float* v) {
  const SgdStep step{grad_scale, lr, momentum, weight_decay, nesterov};
  with_pack_width(
      n,
      [&](auto width) {
        using Kernel = Sgd<width>;
        launch(stream, {.x = blocks_for<Kernel>(n / width)},
               Kernel{n / width, grad_sum, step, p, v});
      },
      grad_sum, p, v);
}

}  // namespace

void add_update(DeviceKernels& kernels) {
  kernels.find_non_finite = find_non_finite;
  kernels.sum_of_squares_workspace_floats = sum_of_squares_workspace_floats;
  kernels.sum_of_squares = sum_of_squares;
  kernels.adam = adam;
  kernels.sgd = sgd;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
