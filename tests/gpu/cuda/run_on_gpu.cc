// The buffers of the tests are in pinned host memory, which the GPU reads and writes directly. The
// tests see the effects of the kernels without copies.
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "gpu/cuda/cuda_inventory.h"
#include "gpu/cuda/device.h"
#include "proto/base/check.h"
#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {
namespace {

constexpr int kSkipped = 77;              // The exit code of a test that cannot run here.
constexpr std::size_t kGuardBytes = 256;  // After each buffer.
constexpr int kGuard = 0xa5;

struct Gpu {
  std::unique_ptr<cuda::Device> device;
  std::map<std::size_t, std::vector<void*>> unused;  // By size.
};

Gpu& gpu() {
  static Gpu gpu = [] {
    const CudaInventory found = cuda_inventory();
    if (found.devices.empty()) {
      std::printf("skipped: no GPU: %s\n", found.why_none.c_str());
      std::exit(kSkipped);
    }
    auto device = cuda::open_gpu(0);
    ES_CHECK_MSG(device.ok(), device.error().message);
    std::printf("on %s\n", (*device)->name().c_str());
    return Gpu{std::move(*device), {}};
  }();
  return gpu;
}

// Buffers of similar sizes share memory, one after the other.
std::size_t size_class(std::size_t bytes) {
  return std::bit_ceil(bytes + kGuardBytes);
}

}  // namespace

const cuda::DeviceKernels& device() {
  return gpu().device->kernels();
}

void finish() {
  const Status done = gpu().device->synchronise(kStream);
  ES_CHECK_MSG(done.ok(), done.error().message);
}

bool stops(const std::function<void()>&) {
  return false;
}

void* take_visible(std::size_t bytes) {
  std::vector<void*>& unused = gpu().unused[size_class(bytes)];
  if (unused.empty()) {
    const auto memory = gpu().device->allocate_host(size_class(bytes), "a test");
    ES_CHECK_MSG(memory.ok(), memory.error().message);
    return *memory;
  }
  void* const memory = unused.back();
  unused.pop_back();
  return memory;
}

void give_back_visible(void* memory, std::size_t bytes) {
  finish();  // Queued work may use it.
  gpu().unused[size_class(bytes)].push_back(memory);
}

// It ends at the end of its memory except for the guard, so the size decides the alignment of the
// start, as on the host.
GuardedBytes::GuardedBytes(std::size_t bytes)
    : map_(static_cast<std::uint8_t*>(take_visible(bytes))), map_size_(bytes), size_(bytes) {
  data_ = map_ + size_class(bytes) - kGuardBytes - bytes;
  std::memset(data_ + bytes, kGuard, kGuardBytes);
}

GuardedBytes::~GuardedBytes() {
  if (map_ == nullptr) return;
  finish();
  for (std::size_t i = 0; i < kGuardBytes; ++i) {
    ES_CHECK_MSG(data_[size_ + i] == kGuard, "a kernel has written behind a buffer");
  }
  give_back_visible(map_, map_size_);
}

}  // namespace es::gpu::testing
