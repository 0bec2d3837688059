#include "gpu/cuda/device_tables.h"
#include "proto/base/check.h"

namespace es::gpu::cuda {

bool have_gpu_kernels() {
  return false;
}

const DeviceKernels& gpu_kernels() {
  ES_CHECK(have_gpu_kernels());
  static const DeviceKernels none{};
  return none;
}

}  // namespace es::gpu::cuda
