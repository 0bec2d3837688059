#pragma once
// The limits of one launch on every GPU from P100 on. Both launchers (launch.h) check them, so a
// kernel that tests have run on host threads can be launched on a GPU.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "gpu/cuda/block.h"
#include "proto/base/check.h"

namespace es::gpu::cuda {

// Number of blocks that a multiprocessor must be able to hold at once; it limits the registers of a
// thread. A kernel may declare it.
template <class Kernel>
constexpr unsigned blocks_at_once() {
  if constexpr (requires { Kernel::kBlocksAtOnce; }) {
    return Kernel::kBlocksAtOnce;
  } else {
    return 1;
  }
}

// Whether only GPUs of capability 9.0 run a kernel. A kernel may declare it.
template <class Kernel>
constexpr bool only_hopper() {
  if constexpr (requires { Kernel::kOnlyHopper; }) {
    return Kernel::kOnlyHopper;
  } else {
    return false;
  }
}

// Bytes of shared memory of a block, on every GPU and on those of capability 9.0; bytes of
// arguments of a launch; threads of a block; threads of a multiprocessor (T4).
inline constexpr std::size_t kSharedBytesMax = 48 << 10, kHopperSharedBytesMax = 227 << 10,
                             kArgumentBytesMax = 4096;
inline constexpr unsigned kBlockThreadsMax = 1024, kThreadsAtOnceMax = 1024;

template <class Kernel>
constexpr void check_kernel() {
  using Shared = typename Kernel::Shared;
  constexpr unsigned kThreads = Kernel::kThreads;
  static_assert(kThreads % 32 == 0 && kThreads > 0 && kThreads <= kBlockThreadsMax);
  static_assert(blocks_at_once<Kernel>() * kThreads <= kThreadsAtOnceMax);
  static_assert(std::is_trivially_copyable_v<Shared>);
  static_assert(sizeof(Shared) <=
                (only_hopper<Kernel>() ? kHopperSharedBytesMax : kSharedBytesMax));
  static_assert(std::is_trivially_copyable_v<Kernel> && sizeof(Kernel) <= kArgumentBytesMax);
}

// REQUIRES: a grid that GPUs accept. A grid without blocks means that nothing is launched.
inline void check_grid(Grid grid) {
  constexpr std::int64_t kAcross = (std::int64_t{1} << 31) - 1, kDown = 65'535;
  ES_CHECK_MSG(grid.x >= 0 && grid.x <= kAcross && grid.y >= 0 && grid.y <= kDown && grid.z >= 0 &&
                   grid.z <= kDown,
               "a grid that no GPU takes");
}

}  // namespace es::gpu::cuda
