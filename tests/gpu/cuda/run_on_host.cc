#include <new>

#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {

const cuda::DeviceKernels& device() {
  return cuda::host_kernels();
}
void finish() {}

void* take_visible(std::size_t bytes) {
  return ::operator new(bytes);
}
void give_back_visible(void* memory, std::size_t) {
  ::operator delete(memory);
}

}  // namespace es::gpu::testing
