// Checks and norms of gradients, and updates of parameters.
#include "gpu/canonical/update_math.h"
#include "gpu/cuda/kernels/array_sum.h"
#include "gpu/cuda/kernels/numbers.h"
#include "gpu/cuda/kernels/pack.h"
#include "gpu/cuda/kernels/topics.h"
#include "proto/base/check.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

ES_HD inline bool is_finite(float x) {
  return absolute(x) < kInfinity;
}

// A block searches a piece of one of several runs. No atomics are needed: all threads that find a
// value write the same word.
struct FindNonFinite {
  static constexpr unsigned kThreads = 256;
  static constexpr int kValues = 8;  // of a thread, loaded concurrently
  static constexpr std::int64_t kPiece = kValues * kThreads;
  using Shared = NoShared;
  std::uint32_t end[kFiniteChecksMax];  // check i has the blocks [end[i - 1], end[i])
  FiniteCheck check[kFiniteChecksMax];

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    // A block finds its check by counting. There are few checks, and all threads of a block take
    // the same way.
    std::int32_t c = 0;
    std::uint32_t begin = 0;
    for (; block.x() >= end[c]; ++c) begin = end[c];
    const FiniteCheck mine = check[c];
    const std::int64_t first = (block.x() - begin) * kPiece + block.thread();
    // All loads are issued before the first comparison. Values beyond the end stay +0, which is
    // finite.
    float v[kValues] = {};
    ES_UNROLL
    for (int j = 0; j < kValues; ++j) {
      if (first + j * kThreads < mine.count) {
        v[j] = number_at(mine.x, mine.bf16, first + j * kThreads);
      }
    }
    bool any = false;
    ES_UNROLL
    for (int j = 0; j < kValues; ++j) any = any || !is_finite(v[j]);
    if (any) *mine.found = 1;
  }
};

void find_non_finite(Stream stream, const FiniteCheck* checks, std::int64_t count) {
  ES_CHECK(count <= kFiniteChecksMax);
  FindNonFinite kernel{};
  std::int64_t blocks = 0;
  // Checks of different sizes share a launch, so small results cost no launch of their own.
  for (std::int64_t i = 0; i < count; ++i) {
    blocks += ceil_div(checks[i].count, FindNonFinite::kPiece);
    kernel.check[i] = checks[i];
    kernel.end[i] = static_cast<std::uint32_t>(blocks);
  }
  launch(stream, {.x = blocks}, kernel);
}

void sum_of_squares(Stream stream, std::int64_t n, const float* x, float* sum, float* ws) {
  array_sum<AddSquare>(stream, n, x, 1.0f, sum, ws);
}

// Raises the flags that are wanted. All threads that find a value write the same word.
ES_HD inline void raise(const UpdateFlags& flags, bool finite_sums, bool finite_results) {
  if (!finite_sums && flags.sums != nullptr) *flags.sums = 1;
  if (!finite_results && flags.results != nullptr) *flags.results = 1;
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
  UpdateFlags flags;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block) * kWidth;
    if (i >= packs * kWidth) return;
    const auto g = load_pack<kWidth>(grad_sum + i);
    auto pp = load_pack<kWidth>(p + i), mm = load_pack<kWidth>(m + i),
         vv = load_pack<kWidth>(v + i);
    bool sums = true, results = true;
    ES_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      adam_update(step, grad_scale, g.v[j], &pp.v[j], &mm.v[j], &vv.v[j]);
      sums = sums && is_finite(g.v[j]);
      results = results && is_finite(pp.v[j]) && is_finite(mm.v[j]) && is_finite(vv.v[j]);
    }
    store_pack(p + i, pp);
    store_pack(m + i, mm);
    store_pack(v + i, vv);
    raise(flags, sums, results);
  }
};

void adam(Stream stream, std::int64_t n, const float* grad_sum, float grad_scale,
          const AdamStep& step, float* p, float* m, float* v, const UpdateFlags& flags) {
  with_pack_width(
      n,
      [&](auto width) {
        using Kernel = Adam<width>;
        launch(stream, {.x = blocks_for<Kernel>(n / width)},
               Kernel{n / width, grad_sum, grad_scale, step, p, m, v, flags});
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
  UpdateFlags flags;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block) * kWidth;
    if (i >= packs * kWidth) return;
    const auto g = load_pack<kWidth>(grad_sum + i);
    auto pp = load_pack<kWidth>(p + i);
    Pack<kWidth> vv = {};
    if (v != nullptr) vv = load_pack<kWidth>(v + i);
    bool sums = true, results = true;
    ES_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      sgd_update(step, g.v[j], &pp.v[j], v == nullptr ? nullptr : &vv.v[j]);
      sums = sums && is_finite(g.v[j]);
      results = results && is_finite(pp.v[j]) && is_finite(vv.v[j]);
    }
    store_pack(p + i, pp);
    if (v != nullptr) store_pack(v + i, vv);
    raise(flags, sums, results);
  }
};

void sgd(Stream stream, std::int64_t n, const float* grad_sum, float grad_scale, float lr,
         float momentum, float weight_decay, bool nesterov, float* p, float* v,
         const UpdateFlags& flags) {
  const SgdStep step{grad_scale, lr, momentum, weight_decay, nesterov};
  with_pack_width(
      n,
      [&](auto width) {
        using Kernel = Sgd<width>;
        launch(stream, {.x = blocks_for<Kernel>(n / width)},
               Kernel{n / width, grad_sum, step, p, v, flags});
      },
      grad_sum, p, v);
}

}  // namespace

void add_update(DeviceKernels& kernels) {
  kernels.find_non_finite = find_non_finite;
  kernels.sum_of_squares_workspace_floats = array_sum_workspace_floats;
  kernels.sum_of_squares = sum_of_squares;
  kernels.adam = adam;
  kernels.sgd = sgd;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
