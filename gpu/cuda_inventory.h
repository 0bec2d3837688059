#pragma once
// The CUDA devices that this process could use. With the CUDA toolkit gpu/cuda/toolkit answers;
// without it gpu/cuda/no_toolkit says so, so that no caller needs to know how the program was
// built.
#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/device.h"

namespace es::gpu {

struct CudaDevice {
  std::string name;            // "NVIDIA H200"
  int compute_capability = 0;  // 10 * major + minor: 90
  std::uint64_t memory_bytes = 0;
  // fp32 outside the tensor cores: multiprocessors * lanes * 2 (an fma) * the highest clock. 0: the
  // driver does not say.
  double peak_tflops = 0;
  // Of device memory: two transfers in each of the highest clock's cycles * its width. 0: the
  // driver does not say.
  double peak_gb_per_s = 0;

  // "cuda-sm90-h200": the capability, then the name without its maker, what is not a letter or a
  // digit as a dash.
  DeviceType type() const;
};

struct CudaInventory {
  std::vector<CudaDevice> devices;
  std::string why_none;  // one line for a person; empty when there are devices
};

// Why no device could be asked for, for CudaInventory::why_none. `driver_version`,
// `needed_version`: 1000 * major + 10 * minor of CUDA, as cudaDriverGetVersion and
// cudaRuntimeGetVersion give them; 0: no driver is loaded. `error`: what the runtime said. Its own
// words for a missing driver are "CUDA driver version is insufficient", which sounds as if there
// were one.
std::string why_no_gpu(int driver_version, int needed_version, const std::string& error);

// Asks the driver; never fails: without one there are no devices. Thread-safe.
CudaInventory cuda_inventory();

}  // namespace es::gpu
