#pragma once
// A device with little memory, on host memory.
#include <memory>
#include <string>

#include "tests/gpu/cuda/forwarding_device.h"

namespace es::test {

class SmallDevice final : public ForwardingDevice {
 public:
  explicit SmallDevice(std::size_t bytes)
      : ForwardingDevice(gpu::cuda::open_host_device()), bytes_(bytes) {}
  std::size_t free_bytes() const { return bytes_; }

  std::string name() const override { return "small"; }
  Result<void*> allocate(std::size_t bytes, const std::string& what) override {
    if (bytes > bytes_) return failure("not enough memory for " + what);
    bytes_ -= bytes;
    return ForwardingDevice::allocate(bytes, what);
  }

 private:
  std::size_t bytes_;
};

}  // namespace es::test
