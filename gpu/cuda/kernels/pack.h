#pragma once
// One or four neighbouring floats that a thread moves at once, and the number of blocks. Element
// numbers in kernels have 32 bits where they are divided, and 31 where they are divided by a
// multiplication (divider.h).
#include <cstdint>
#include <type_traits>

#include "gpu/canonical/device_kernels.h"
#include "gpu/canonical/scalar_math.h"
#include "proto/base/check.h"

namespace es::gpu::cuda {
namespace {

template <int kWidth>
struct alignas(kWidth * sizeof(float)) Pack {
  float v[kWidth];
};

// A GPU stops at a misaligned access, which the host would tolerate. This check makes tests on the
// host fail too.
template <int kWidth>
ES_HD inline void check_aligned([[maybe_unused]] const float* p) {
#ifndef __CUDA_ARCH__
  ES_CHECK_MSG(reinterpret_cast<std::uintptr_t>(p) % sizeof(Pack<kWidth>) == 0,
               "a misaligned pack");
#endif
}

// REQUIRES: p is aligned to the pack.
template <int kWidth>
ES_HD inline Pack<kWidth> load_pack(const float* p) {
  check_aligned<kWidth>(p);
  return *reinterpret_cast<const Pack<kWidth>*>(p);
}
template <int kWidth>
ES_HD inline void store_pack(float* p, const Pack<kWidth>& pack) {
  check_aligned<kWidth>(p);
  *reinterpret_cast<Pack<kWidth>*>(p) = pack;
}

// Calls f(width) with a constant: 4 if rows of `row` floats and all pointers allow packs, otherwise
// 1.
template <class Function, class... Pointers>
void with_pack_width(std::int64_t row, Function&& f, const Pointers*... pointers) {
  const auto misaligned = (std::uintptr_t{0} | ... | reinterpret_cast<std::uintptr_t>(pointers));
  if (row % 4 == 0 && misaligned % sizeof(Pack<4>) == 0) {
    f(std::integral_constant<int, 4>());
  } else {
    f(std::integral_constant<int, 1>());
  }
}

// Returns the number of the thread in a one-dimensional grid.
template <class Kernel, class Block>
ES_HD inline std::int64_t thread_in_grid(const Kernel&, const Block& block) {
  return static_cast<std::int64_t>(block.x()) * Kernel::kThreads + block.thread();
}
// Returns the blocks of a grid with a thread for each of `count` items.
template <class Kernel>
std::int64_t blocks_for(std::int64_t count) {
  return ceil_div(count, Kernel::kThreads);
}

// Most items of a kernel that divides their numbers, with `/` and with a Divider. The numbers of
// all threads of the last block fit, too.
constexpr std::int64_t kDividedMax = kDeviceTensorMax, kMultipliedMax = kDividedMax - (1LL << 31);

// Return the number of items, and the blocks for it. REQUIRES: at most `most` items.
inline std::int64_t numbered(std::int64_t count, std::int64_t most = kDividedMax) {
  ES_CHECK_MSG(count >= 0 && count <= most, "more elements than a kernel numbers");
  return count;
}
template <class Kernel>
std::int64_t numbered_blocks_for(std::int64_t count, std::int64_t most = kDividedMax) {
  return blocks_for<Kernel>(numbered(count, most));
}

}  // namespace
}  // namespace es::gpu::cuda
