#pragma once
// The part of launch.h for the CUDA compiler.
#include <cuda_runtime.h>

#include <typeinfo>

#include "gpu/cuda/launch_limits.h"
#include "gpu/cuda/tensor_gpu.h"
#include "gpu/cuda/toolkit/launches.h"

namespace es::gpu::cuda::on_gpu {

struct GpuBlock : TensorCores {
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
  if constexpr (only_hopper<Kernel>()) {
    // Static shared memory is limited to 48 KiB.
    extern __shared__ __align__(128) unsigned char dynamic[];
    if constexpr (GpuBlock::kIsHopper)
      kernel(GpuBlock{}, *reinterpret_cast<typename Kernel::Shared*>(dynamic));
  } else {
    __shared__ typename Kernel::Shared shared;
    kernel(GpuBlock{}, shared);
  }
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
  constexpr int kDynamic = only_hopper<Kernel>() ? sizeof(typename Kernel::Shared) : 0;
  cudaError_t code = cudaSuccess;
  if constexpr (kDynamic > 0)
    code = cudaFuncSetAttribute(&run_kernel<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                kDynamic);
  if (code == cudaSuccess)
    code = cudaLaunchKernel(&run_kernel<Kernel>, blocks, dim3(Kernel::kThreads), arguments,
                            kDynamic, static_cast<cudaStream_t>(stream.handle));
  if (code != cudaSuccess) note_failed_launch(code, typeid(Kernel));
}

// Returns the compute capability of the device of the calling thread, for example 90.
inline int compute_capability() {
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
    return 0;
  return 10 * major + minor;
}

}  // namespace es::gpu::cuda::on_gpu
