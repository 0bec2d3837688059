// Element-wise kernels: chains of stages, random numbers, sums, scaling, moves.
#include "gpu/canonical/chain_math.h"
#include "gpu/cuda/kernels/map.h"
#include "gpu/cuda/kernels/numbers.h"
#include "gpu/cuda/kernels/topics.h"
#include "proto/base/check.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

constexpr std::int64_t kStagesMax = 16;  // stages of one chain

// A run of 32 threads has 128 neighbouring elements, and each thread has every 32nd of them. So the
// run loads one piece of memory at any alignment, and the four dropout decisions of a thread are
// the words of one counter.
struct Chain {
  static constexpr unsigned kThreads = 256;
  static constexpr int kValues = 4;
  static_assert(kDropoutBlock == 32 * kValues);
  using Shared = NoShared;
  std::uint32_t n;
  std::int32_t count;
  const float* x;
  float* y;
  Bf16Arrays bf16;
  const DropoutKey* key;
  ChainStage stages[kStagesMax];

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::uint32_t group = block.x() * (kThreads / 32) + block.thread() / 32;
    const std::uint32_t first = group * (32 * kValues) + block.thread() % 32;
    if (first >= n) return;
    std::uint32_t at[kValues];  // beyond the end: the last element, which is then not stored
    float v[kValues];
    ES_UNROLL
    for (int i = 0; i < kValues; ++i) {
      at[i] = n - first > 32u * i ? first + 32u * i : n - 1;
      v[i] = number_at(x, bf16.reads(0), at[i]);
    }
    for (std::int32_t s = 0; s < count; ++s) {
      const ChainStage stage = stages[s];
      // A dropout with one decision for each element takes the four words of one counter. With one
      // decision for several elements (stochastic depth), apply_stage() finds the decision of each
      // element.
      if (stage.kind == ChainKind::kDropout && stage.columns == 1) {
        drop(stage.dropout, group * 32 + block.thread() % 32, v);
      } else {
        apply_stage(stage, *key, at, v, Numbers{stage.operand, bf16.reads(s + 1)});
      }
    }
    ES_UNROLL
    for (int i = 0; i < kValues; ++i) {
      if (n - first > 32u * i) set_number(y, bf16.writes(0), at[i], v[i]);
    }
  }

  ES_HD void drop(const Dropout& dropout, std::uint32_t counter, float (&v)[kValues]) const {
    if (dropout.threshold == 0) return;
    const DropoutWords words = dropout_words(dropout.op, *key, counter);
    ES_UNROLL
    for (int i = 0; i < kValues; ++i) {
      v[i] = keep_scaled(words.word[i] < dropout.threshold, v[i], dropout.factor);
    }
  }
};

void chain(Stream stream, std::int64_t n, const float* x, const ChainStage* stages,
           std::int64_t count, const Bf16Arrays& bf16, const DropoutKey* key, float* y) {
  // The stages are passed to the kernel by value, so their number has a limit.
  ES_CHECK_MSG(count <= kStagesMax, "a chain with more stages than a kernel takes");
  Chain kernel{.n = static_cast<std::uint32_t>(numbered(n)),
               .count = static_cast<std::int32_t>(count),
               .x = x,
               .y = y,
               .bf16 = bf16,
               .key = key,
               .stages = {}};
  for (std::int64_t s = 0; s < count; ++s) kernel.stages[s] = stages[s];
  launch(stream, {.x = ceil_div(n, kDropoutBlock * (Chain::kThreads / 32))}, kernel);
}

// Each thread has four elements, whose numbers are the words of one counter (Chain).
struct Uniform {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  std::uint32_t n, op;
  const DropoutKey* key;
  float* y;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::uint32_t group = block.x() * (kThreads / 32) + block.thread() / 32;
    const std::uint32_t lane = block.thread() % 32;
    const auto first = static_cast<std::uint32_t>(group * kDropoutBlock + lane);
    if (first >= n) return;
    const DropoutWords words = dropout_words(op, *key, group * 32 + lane);
    ES_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (n - first > 32u * i) y[first + 32u * i] = uniform_number(words.word[i]);
    }
  }
};

void uniform(Stream stream, std::int64_t n, std::uint32_t op, const DropoutKey* key, float* y) {
  const Uniform kernel{static_cast<std::uint32_t>(numbered(n)), op, key, y};
  launch(stream, {.x = ceil_div(n, kDropoutBlock * (Uniform::kThreads / 32))}, kernel);
}

struct Sum {
  ES_HD float operator()(float a, float b) const { return a + b; }
};
struct Scaled {
  float factor;
  ES_HD float operator()(float a, float) const { return a * factor; }
};

void add(Stream stream, std::int64_t n, const float* a, const float* b, float* y) {
  map(stream, n, a, b, y, Sum());
}

void scale(Stream stream, std::int64_t n, const float* x, float factor, float* y) {
  map(stream, n, x, x, y, Scaled{factor});
}

// Copies blocks of words, with a thread for each pack. The words are not interpreted, so a NaN
// keeps its bits.
template <int kWidth>
struct CopyBlocks {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  std::uint32_t packs;
  std::int32_t rank;  // the first dimension is the innermost
  std::uint32_t size[kMoveRank];
  std::int64_t source_stride[kMoveRank], target_stride[kMoveRank];
  const float* source;
  float* target;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block);
    if (i >= packs) return;
    auto rest = static_cast<std::uint32_t>(i);
    std::int64_t from = 0, to = 0;
    for (std::int32_t d = 0; d < rank; ++d) {
      const std::uint32_t at = rest % size[d];
      rest /= size[d];
      from += at * source_stride[d];
      to += at * target_stride[d];
    }
    store_pack(target + to, load_pack<kWidth>(source + from));
  }
};

// Returns whether the offsets and strides, except the innermost stride, are multiples of four
// words, and the innermost dimension is one run in both arrays.
bool in_packs(const BlockCopy& copy) {
  constexpr std::size_t kLast = kMoveRank - 1;
  std::int64_t words = copy.source_offset | copy.target_offset | copy.size[kLast];
  for (std::size_t d = 0; d < kLast; ++d) {
    if (copy.size[d] > 1) words |= copy.source_stride[d] | copy.target_stride[d];
  }
  return words % 4 == 0 && copy.source_stride[kLast] == 1 && copy.target_stride[kLast] == 1;
}

template <int kWidth>
CopyBlocks<kWidth> copy_blocks(const BlockCopy& copy, const float* source, float* target) {
  CopyBlocks<kWidth> kernel{};
  kernel.source = source + copy.source_offset;
  kernel.target = target + copy.target_offset;
  std::int64_t packs = 1;
  for (std::size_t d = kMoveRank; d-- > 0;) {
    const std::int64_t width = d + 1 == kMoveRank ? kWidth : 1, size = copy.size[d] / width;
    packs *= size;
    // Dimensions of size 1 are left out, because each dimension costs a division in every thread.
    if (size == 1) continue;
    kernel.size[kernel.rank] = static_cast<std::uint32_t>(size);
    kernel.source_stride[kernel.rank] = copy.source_stride[d] * width;
    kernel.target_stride[kernel.rank] = copy.target_stride[d] * width;
    ++kernel.rank;
  }
  kernel.packs = static_cast<std::uint32_t>(numbered(packs));
  return kernel;
}

void block_copy(Stream stream, const BlockCopy& copy, const float* source, float* target) {
  with_pack_width(
      in_packs(copy) ? 4 : 1,
      [&](auto width) {
        const auto kernel = copy_blocks<width>(copy, source, target);
        launch(stream, {.x = blocks_for<CopyBlocks<width>>(kernel.packs)}, kernel);
      },
      source, target);
}

}  // namespace

void add_elementwise(DeviceKernels& kernels) {
  kernels.chain = chain;
  kernels.uniform = uniform;
  kernels.add = add;
  kernels.scale = scale;
  kernels.fill_zero = fill_zero;
  kernels.block_copy = block_copy;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
