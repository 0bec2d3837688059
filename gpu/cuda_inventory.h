#pragma once
// The CUDA devices that this process could use. With the CUDA toolkit gpu/cuda answers; without it
// gpu/no_cuda says so, so that no caller needs to know how the program was built.
#include <cstdint>
#include <string>
#include <vector>

namespace es::gpu {

struct CudaDevice {
  std::string name;            // "NVIDIA H200"
  int compute_capability = 0;  // 10 * major + minor: 90
  std::uint64_t memory_bytes = 0;
};

struct CudaInventory {
  std::vector<CudaDevice> devices;
  std::string why_none;  // one line for a person; empty when there are devices
};

// Asks the driver; never fails: without one there are no devices. Thread-safe.
CudaInventory cuda_inventory();

}  // namespace es::gpu
