#pragma once
// Element-wise operators on tensors that are stored as bf16, on a CPU: the kernels get tiles of
// fp32 numbers that stay in the first-level cache.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "gpu/canonical/kernels.h"
#include "proto/base/check.h"

namespace es::gpu {

// Tiles for at most kArrays arrays that are bf16. Every address is that of element 0 of a tensor,
// of which the kernel uses the elements [begin(), end()).
template <std::size_t kArrays>
class Bf16Tile {
 public:
  explicit Bf16Tile(const KernelTable& kernels) : kernels_(kernels) {}

  // Goes to the next tile of [first, end). Returns false behind the last one.
  bool next(std::int64_t first, std::int64_t end) {
    begin_ = end_ == 0 ? first : end_;
    end_ = std::min(begin_ + kElements, end);
    used_ = 0;
    return begin_ < end;
  }
  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }

  // Returns the address from which the kernel reads a tensor.
  const float* read(const float* from, bool bf16) {
    if (!bf16) return from;
    float* const to = take();
    kernels_.widen(end_ - begin_, reinterpret_cast<const Bf16*>(from) + begin_, to);
    return before(to);
  }
  // Returns the address to which the kernel writes a tensor, until finish().
  float* write(float* to, bool bf16) {
    if (!bf16) return to;
    float* const from = take();
    written_[writes_++] = {from, reinterpret_cast<Bf16*>(to)};
    return before(from);
  }
  // Rounds what the kernel has written.
  void finish() {
    for (std::size_t i = 0; i < writes_; ++i)
      kernels_.narrow(end_ - begin_, written_[i].from, written_[i].to + begin_);
    writes_ = 0;
  }

 private:
  // A multiple of the elements that share one counter of random numbers.
  static constexpr std::int64_t kElements = 1024;
  struct Written {
    const float* from;
    Bf16* to;
  };

  float* take() {
    ES_CHECK(used_ < kArrays);
    return memory_[used_++].data();
  }
  // Returns the address at which element 0 would be. It may lie outside of the memory, so it is
  // computed with integers.
  float* before(float* tile) const {
    const auto offset = static_cast<std::uintptr_t>(begin_) * sizeof(float);
    return reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(tile) - offset);
  }

  const KernelTable& kernels_;
  std::int64_t begin_ = 0, end_ = 0;
  std::size_t used_ = 0, writes_ = 0;
  std::array<Written, kArrays> written_;
  alignas(64) std::array<std::array<float, kElements>, kArrays> memory_;
};

}  // namespace es::gpu
