#pragma once
// AlignedBuffer: an owned array of floats, 64-byte aligned, zero at first. Movable and copyable;
// the address does not change while it lives (moving keeps it).
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace es::gpu {

constexpr std::size_t kBufferAlignment = 64;

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::int64_t floats)
      : data_(floats == 0 ? nullptr
                          : static_cast<float*>(::operator new (
                                bytes_of(floats), std::align_val_t{kBufferAlignment}))),
        floats_(floats) {
    if (floats != 0) std::memset(data_.get(), 0, bytes_of(floats));
  }
  AlignedBuffer(const AlignedBuffer& other) : AlignedBuffer(other.floats_) {
    if (floats_ != 0) std::memcpy(data_.get(), other.data_.get(), bytes());
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::move(other.data_)), floats_(std::exchange(other.floats_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer other) noexcept {
    std::swap(data_, other.data_);
    std::swap(floats_, other.floats_);
    return *this;
  }

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  std::int64_t floats() const { return floats_; }
  std::size_t bytes() const { return bytes_of(floats_); }

 private:
  struct Free {
    void operator()(float* p) const { ::operator delete (p, std::align_val_t{kBufferAlignment}); }
  };
  static std::size_t bytes_of(std::int64_t floats) {
    return static_cast<std::size_t>(floats) * sizeof(float);
  }

  std::unique_ptr<float[], Free> data_;
  std::int64_t floats_ = 0;
};

}  // namespace es::gpu
