#pragma once
// DevicePool: device memory for gradients on their way between workers: parts, what comes by
// channels, sums. Taken in blocks of any size and given back; all of it was allocated at once, so
// nobody allocates while transfers run.
//
// A block belongs to whoever holds it, several at a time if they like, and goes back when the last
// has let go of it. Nothing that is queued may still use it then: whoever has queued something
// holds the block until he has seen its end.
//
// The memory is the engine's Device's. Its address is good for every Device of the same process and
// the same GPU; the bytes are there for another one once the host has seen the end of what wrote
// them.
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
  static constexpr std::size_t kAlignment = 256;  // of blocks, if the memory has it

  // Empty at first. REQUIRES: held by a shared_ptr.
  DevicePool() = default;

  // From now on these bytes can be taken. They outlive every use of a block. REQUIRES: called once.
  void provide(void* memory, std::size_t bytes);

  // nullptr: there is no room at present. REQUIRES: bytes > 0.
  Block take(std::size_t bytes);

  // Whether this is an address in the pool's memory.
  bool contains(const void* address) const;
  std::size_t capacity() const;
  // Bytes in blocks that somebody holds.
  std::size_t taken() const;

 private:
  void give_back(std::size_t offset, std::size_t bytes);

  mutable std::mutex mutex_;
  std::byte* memory_ = nullptr;
  std::size_t capacity_ = 0, taken_ = 0;
  std::map<std::size_t, std::size_t> free_;  // offset to bytes; no two of them touch
};

}  // namespace es::gpu::cuda
