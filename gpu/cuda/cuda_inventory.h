#pragma once
// Lists the CUDA devices that this process can use. gpu/cuda/toolkit implements the functions if
// the program is built with the CUDA toolkit, and gpu/cuda/no_toolkit reports that there is none
// otherwise. A caller need not know how the program was built.
#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/device.h"

namespace es::gpu {

struct CudaDevice {
  std::string name;            // "NVIDIA H200"
  int compute_capability = 0;  // 10 * major + minor, for example 90
  std::uint64_t memory_bytes = 0;
  // Peak fp32 rate outside the tensor cores, in TFLOP/s: multiprocessors * lanes * 2 (an fma counts
  // as two operations) * the highest clock rate. 0: the driver does not report it.
  double peak_tflops = 0;
  // Peak bandwidth of device memory in GB/s: two transfers in each cycle of the highest memory
  // clock * the width of the bus. 0: the driver does not report it.
  double peak_gb_per_s = 0;
  int multiprocessors = 0;

  // Returns for example "cuda-sm90-h200": the capability, then the name without its manufacturer,
  // with a dash for every character that is neither a letter nor a digit.
  DeviceType type() const;
};

struct CudaInventory {
  std::vector<CudaDevice> devices;
  std::string why_none;  // one line of text for the user; empty if there are devices
};

// Returns the reason why no device could be listed, for CudaInventory::why_none. `driver_version`
// and `needed_version` are CUDA versions as 1000 * major + 10 * minor, as cudaDriverGetVersion and
// cudaRuntimeGetVersion return them; 0 means that no driver is loaded. `error` is the message of
// the runtime. Its own message for a missing driver is "CUDA driver version is insufficient", which
// wrongly suggests that there is a driver.
std::string why_no_gpu(int driver_version, int needed_version, const std::string& error);

// Asks the driver. The function never fails: without a driver there are no devices. Thread-safe.
CudaInventory cuda_inventory();

}  // namespace es::gpu
