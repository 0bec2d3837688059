#pragma once
// For launch.h, with the CUDA compiler. An error of a launch stays with the CUDA runtime until
// Device::check() (device.h) asks for it.
#include <cuda_runtime.h>

#include "gpu/cuda/block.h"

namespace es::gpu::cuda::on_gpu {

struct GpuBlock {
  __device__ unsigned x() const { return blockIdx.x; }
  __device__ unsigned y() const { return blockIdx.y; }
  __device__ unsigned z() const { return blockIdx.z; }
  __device__ unsigned thread() const { return threadIdx.x; }
  __device__ void sync() const { __syncthreads(); }
  __device__ float down(float value, unsigned delta) const {
    return __shfl_down_sync(0xffffffffu, value, delta);
  }
  __device__ float first(float value) const { return __shfl_sync(0xffffffffu, value, 0); }
};

// Blocks that a multiprocessor shall hold at once, which limits the registers of a thread. A kernel
// may name them.
template <class Kernel>
constexpr unsigned blocks_at_once() {
  if constexpr (requires { Kernel::kBlocksAtOnce; }) {
    return Kernel::kBlocksAtOnce;
  } else {
    return 1;
  }
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, blocks_at_once<Kernel>())
    run_kernel(const Kernel kernel) {
  __shared__ typename Kernel::Shared shared;
  kernel(GpuBlock{}, shared);
}

template <class Kernel>
void launch(Stream stream, Grid grid, const Kernel& kernel) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                    static_cast<unsigned>(grid.z));
  run_kernel<<<blocks, Kernel::kThreads, 0, static_cast<cudaStream_t>(stream.handle)>>>(kernel);
}

}  // namespace es::gpu::cuda::on_gpu
