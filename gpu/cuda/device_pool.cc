#include "gpu/cuda/device_pool.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "proto/base/check.h"

namespace es::gpu::cuda {
namespace {

constexpr std::size_t rounded_up(std::size_t bytes) {
  return (bytes + DevicePool::kAlignment - 1) / DevicePool::kAlignment * DevicePool::kAlignment;
}

}  // namespace

void DevicePool::provide(void* memory, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  ES_CHECK(memory_ == nullptr);
  memory_ = static_cast<std::byte*>(memory);
  capacity_ = bytes / kAlignment * kAlignment;
  if (capacity_ != 0) free_.emplace(0, capacity_);
}

// Takes the first free range that is large enough.
DevicePool::Block DevicePool::take(std::size_t bytes) {
  const std::size_t size = rounded_up(bytes);
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [size](const auto& range) { return range.second >= size; });
  if (found == free_.end()) return nullptr;
  const auto [offset, room] = *found;
  free_.erase(found);
  if (room > size) free_.emplace(offset + size, room - size);
  taken_ += size;
  // The block keeps the pool alive, so its last holder may release it after the owner of the pool
  // has released the pool.
  return {memory_ + offset, [pool = shared_from_this(), offset = offset, size](std::byte*) {
            pool->give_back(offset, size);
          }};
}

void DevicePool::give_back(std::size_t offset, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  taken_ -= bytes;
  // The free range is joined with its neighbours. Without this the pool would fall apart into
  // ranges that are too small for the next block.
  const auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    if (const auto before = std::prev(next); before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      free_.erase(before);
    }
  }
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    free_.erase(next);
  }
  free_.emplace(offset, bytes);
}

bool DevicePool::contains(const void* address) const {
  const std::lock_guard lock(mutex_);
  const std::less<const void*> before;
  return !before(address, memory_) && before(address, memory_ + capacity_);
}

std::size_t DevicePool::capacity() const {
  const std::lock_guard lock(mutex_);
  return capacity_;
}

std::size_t DevicePool::taken() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

}  // namespace es::gpu::cuda
