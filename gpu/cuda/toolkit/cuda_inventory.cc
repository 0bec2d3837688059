#include "gpu/cuda/cuda_inventory.h"

#include <cuda_runtime_api.h>

#include <cstdlib>

namespace es::gpu {
namespace {

// Number of fp32 operations that a multiprocessor begins in each clock cycle, from the CUDA C++
// Programming Guide, section "Arithmetic Instructions".
int lanes(int capability) {
  return capability == 60 || (capability >= 70 && capability <= 80) ? 64 : 128;
}

// Requests 32 hardware queues. If two streams share a queue, either can wait behind the other,
// which channel.h must avoid. The driver reads the variable at its first call, which is in this
// file.
void ask_for_queues() {
  static const int done = ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  (void)done;
}

double peak_tflops(int device, int capability, int multiprocessors) {
  int khz = 0;
  if (cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device) != cudaSuccess) return 0;
  return 1e-12 * 2 * lanes(capability) * multiprocessors * (1e3 * khz);
}

double peak_gb_per_s(int device) {
  int khz = 0, bits = 0;
  if (cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, device) != cudaSuccess)
    return 0;
  return 1e-9 * 2 * (1e3 * khz) * bits / 8;
}

}  // namespace

CudaInventory cuda_inventory() {
  ask_for_queues();
  CudaInventory inventory;
  int count = 0;
  // Without a driver this call fails; it does not return zero devices.
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    int driver = 0, runtime = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
    if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) runtime = 0;
    inventory.why_none = why_no_gpu(driver, runtime, cudaGetErrorString(error));
    return inventory;
  }
  if (count == 0) inventory.why_none = "the driver knows no device";
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    const int capability = 10 * properties.major + properties.minor;
    inventory.devices.push_back({properties.name, capability, properties.totalGlobalMem,
                                 peak_tflops(i, capability, properties.multiProcessorCount),
                                 peak_gb_per_s(i), properties.multiProcessorCount});
  }
  return inventory;
}

}  // namespace es::gpu
