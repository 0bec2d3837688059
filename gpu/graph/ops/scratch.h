#pragma once
// Scratch memory of an operator whose parts run on several threads: each thread has its own.
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace es::gpu {

class Scratch {
 public:
  explicit Scratch(int threads) : threads_(static_cast<std::size_t>(threads)) {}

  // Every thread gets at least this many floats.
  void cover(std::size_t floats) {
    floats_ = std::max(floats_, (floats + kAlignment - 1) / kAlignment * kAlignment);
  }
  // Returns the floats of all threads.
  std::size_t all() const { return floats_ * threads_; }
  // Returns the memory of the thread that works on a part. `workspace` has all() floats.
  float* of_part(float* workspace, std::int64_t part) const {
    return workspace + static_cast<std::size_t>(part) * floats_;
  }

 private:
  static constexpr std::size_t kAlignment = 16;  // floats
  std::size_t threads_;
  std::size_t floats_ = 0;
};

// Returns make(). One thread needs no division, because its only part begins at the workspace.
template <class Make>
Scratch scratch_for(int threads, Make&& make) {
  return threads == 1 ? Scratch(threads) : make();
}

}  // namespace es::gpu
