#include "gpu/cuda_inventory.h"

#include <cuda_runtime_api.h>

namespace es::gpu {

CudaInventory cuda_inventory() {
  CudaInventory inventory;
  int count = 0;
  // Without a driver this is an error, not zero devices.
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    inventory.why_none = cudaGetErrorString(error);
    return inventory;
  }
  if (count == 0) inventory.why_none = "the driver knows no device";
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    inventory.devices.push_back(
        {properties.name, 10 * properties.major + properties.minor, properties.totalGlobalMem});
  }
  return inventory;
}

}  // namespace es::gpu
