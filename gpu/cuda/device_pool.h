#pragma once
// DevicePool: device memory for gradients that travel between workers: parts, data that arrives
// through channels, and sums. Blocks of any size are taken and given back. All of the memory was
// allocated at once, so nothing is allocated while transfers run.
//
// A block belongs to its holders; there may be several at a time. It returns to the pool when the
// last holder has released it. Queued work must not use it after that: the code that queues work
// holds the block until it has seen the end of the work.
//
// The memory belongs to the Device of the engine. Its address is valid for every Device of the same
// process and the same GPU. Another Device may read the bytes once the host has seen the end of the
// work that wrote them.
//
// Threads: any number.
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace es::gpu::cuda {

class DevicePool : public std::enable_shared_from_this<DevicePool> {
 public:
  using Block = std::shared_ptr<std::byte>;
  // Alignment of blocks in bytes, if the memory itself is aligned.
  static constexpr std::size_t kAlignment = 256;

  // The pool is empty at first. REQUIRES: a shared_ptr holds the pool.
  DevicePool() = default;

  // From now on these bytes can be taken. They must outlive every use of a block. REQUIRES: called
  // at most once.
  void provide(void* memory, std::size_t bytes);

  // Returns nullptr if there is no room at present. REQUIRES: bytes > 0.
  Block take(std::size_t bytes);

  // Returns whether the address lies in the memory of the pool.
  bool contains(const void* address) const;
  std::size_t capacity() const;
  // Number of bytes in blocks that have a holder.
  std::size_t taken() const;

 private:
  void give_back(std::size_t offset, std::size_t bytes);

  mutable std::mutex mutex_;
  std::byte* memory_ = nullptr;
  std::size_t capacity_ = 0, taken_ = 0;
  std::map<std::size_t, std::size_t> free_;  // offset to bytes; free ranges never touch each other
};

}  // namespace es::gpu::cuda
