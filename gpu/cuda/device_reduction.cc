#include "gpu/cuda/device_reduction.h"

#include <algorithm>

namespace es::gpu::cuda {
Status DeviceReduction::provide(std::uint32_t max_p) {
  if (asked_) return {};
  asked_ = true;
  ES_RETURN_IF_ERROR(device_.begin());
  const std::size_t blocks = bytes_of(reduce_blocks(max_p) * kBlockFloats);
  const std::size_t wanted = blocks + bytes_of(kPoolGradients * floats_);
  const std::size_t bytes = std::min(wanted, device_.spare_bytes());
  // A pool that cannot hold a single gradient is not created. The sums over workers then stay on
  // the host, which is slower and gives the same bits.
  if (bytes < blocks + bytes_of(floats_)) return device_.check();
  const auto memory = device_.allocate(bytes, "gradients between workers");
  ES_RETURN_IF_ERROR(device_.check());
  if (!memory) return {};
  ES_SET(stream_, device_.make_stream());
  workspace_ = static_cast<float*>(*memory);
  pool_->provide(static_cast<std::byte*>(*memory) + blocks, bytes - blocks);
  return {};
}

const float* DeviceReduction::read(const float* part, std::int64_t begin, std::int64_t n,
                                   float* scratch) {
  if (pool_->contains(part)) return part + begin;
  device_.copy_in(stream_, scratch, part + begin, bytes_of(n));
  return scratch;
}

void DeviceReduction::add(std::int64_t n, const float* a, const float* b, float* y) {
  device_.kernels().add(stream_, n, a, b, y);
}

void DeviceReduction::copy(std::int64_t n, const float* from, float* to) {
  device_.copy(stream_, to, from, bytes_of(n));
}

void DeviceReduction::copy_out(float* host, const float* device, std::int64_t n) {
  device_.copy_out(stream_, host, device, bytes_of(n));
}

Status DeviceReduction::synchronise() {
  return device_.synchronise(stream_);
}

}  // namespace es::gpu::cuda
