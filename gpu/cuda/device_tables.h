#pragma once
// The two tables of the CUDA device's kernels (gpu/canonical/device_kernels.h).
#include "gpu/canonical/device_kernels.h"

namespace es::gpu::cuda {

// Returns the kernels for GPUs. REQUIRES: a build with the CUDA toolkit (have_gpu_kernels()).
const DeviceKernels& gpu_kernels();
bool have_gpu_kernels();
// Returns the same sources, executed on the calling thread.
const DeviceKernels& host_kernels();

}  // namespace es::gpu::cuda
