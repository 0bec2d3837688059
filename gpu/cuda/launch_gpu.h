#pragma once
// The part of launch.h for the CUDA compiler.
#include <cuda_runtime.h>

#include <typeinfo>

#include "gpu/cuda/launch_limits.h"
#include "gpu/cuda/toolkit/launches.h"

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
  __device__ void order() const { __syncwarp(); }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, blocks_at_once<Kernel>())
    run_kernel(const Kernel kernel) {
  __shared__ typename Kernel::Shared shared;
  kernel(GpuBlock{}, shared);
}

// Registers every kernel that the program can launch, when the program starts.
template <class Kernel>
struct Launched {
  static inline const bool noted =
      note_kernel(reinterpret_cast<const void*>(&run_kernel<Kernel>), typeid(Kernel));
};

// An error stays with the calling thread until Device::check() (device.h) asks for it.
template <class Kernel>
void launch(Stream stream, Grid grid, const Kernel& kernel) {
  check_kernel<Kernel>();
  check_grid(grid);
  static_cast<void>(&Launched<Kernel>::noted);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                    static_cast<unsigned>(grid.z));
  void* arguments[] = {const_cast<Kernel*>(&kernel)};
  const cudaError_t code = cudaLaunchKernel(&run_kernel<Kernel>, blocks, dim3(Kernel::kThreads),
                                            arguments, 0, static_cast<cudaStream_t>(stream.handle));
  if (code != cudaSuccess) note_failed_launch(code, typeid(Kernel));
}

}  // namespace es::gpu::cuda::on_gpu
