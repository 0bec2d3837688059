#pragma once
// AlignedBuffer: an owned array of floats, 64-byte aligned, zero at first. Movable and copyable;
// the address does not change while it lives (moving keeps it).
//
// Large buffers ask for huge pages: streaming the weights of a 25088 x 4096 layer from memory is
// 5 to 10 % faster with them, and there are 512 times fewer page faults. A system that has none to
// give, or does not know the request, gives ordinary pages.
//
// Memory that is not there is the exception NoMemory, since a constructor has no other way to say
// it; what creates large buffers for a job (Engine, the worker's device half) makes an Error of it.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace es::gpu {

constexpr std::size_t kBufferAlignment = 64;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// "not enough memory for PURPOSE: N bytes are wanted, this machine has M".
class NoMemory : public std::bad_alloc {
 public:
  NoMemory(const char* purpose, std::size_t bytes, std::size_t physical_bytes) {
    std::snprintf(text_, sizeof text_,
                  "not enough memory for %s: %zu bytes are wanted, this machine has %zu", purpose,
                  bytes, physical_bytes);
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[200];
};

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // `purpose`: what the memory is for, in the words of NoMemory.
  explicit AlignedBuffer(std::int64_t floats, const char* purpose = "a buffer")
      : AlignedBuffer(floats, purpose, Uninitialised()) {
    if (floats != 0) std::memset(data_.get(), 0, bytes_of(floats));
  }
  AlignedBuffer(const AlignedBuffer& other)
      : AlignedBuffer(other.floats_, "a copy", Uninitialised()) {
    if (floats_ != 0) std::memcpy(data_.get(), other.data_.get(), bytes());
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::move(other.data_)), floats_(std::exchange(other.floats_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer other) noexcept {
    std::swap(data_, other.data_);
    std::swap(floats_, other.floats_);
    return *this;
  }

  // Not zero: for who writes every float that is read. No memory is touched.
  static AlignedBuffer uninitialised(std::int64_t floats, const char* purpose) {
    return AlignedBuffer(floats, purpose, Uninitialised());
  }

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  std::int64_t floats() const { return floats_; }
  std::size_t bytes() const { return bytes_of(floats_); }

 private:
  struct Uninitialised {};
  AlignedBuffer(std::int64_t floats, const char* purpose, Uninitialised)
      : data_(allocate(floats, purpose), Free{alignment_of(floats)}), floats_(floats) {}
  struct Free {
    Free() : Free(std::align_val_t{kBufferAlignment}) {}
    explicit Free(std::align_val_t alignment) : alignment(alignment) {}
    void operator()(float* p) const { ::operator delete(p, alignment); }
    std::align_val_t alignment;
  };
  static std::align_val_t alignment_of(std::int64_t floats) {
    return std::align_val_t{bytes_of(floats) < kHugePageBytes ? kBufferAlignment : kHugePageBytes};
  }
  static std::size_t physical_bytes() {
    return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
           static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  }
  // A kernel that overcommits would grant any size, and kill the process when it is written.
  static float* allocate(std::int64_t floats, const char* purpose) {
    if (floats == 0) return nullptr;
    const std::size_t bytes = bytes_of(floats);
    void* p = bytes < kHugePageBytes || bytes <= physical_bytes()
                  ? ::operator new(bytes, alignment_of(floats), std::nothrow)
                  : nullptr;
    if (p == nullptr) throw NoMemory(purpose, bytes, physical_bytes());
#if defined(MADV_HUGEPAGE)
    const std::size_t whole = bytes / kHugePageBytes * kHugePageBytes;
    if (whole != 0) madvise(p, whole, MADV_HUGEPAGE);  // advice: a refusal changes nothing
#endif
    return static_cast<float*>(p);
  }
  static std::size_t bytes_of(std::int64_t floats) {
    return static_cast<std::size_t>(floats) * sizeof(float);
  }

  std::unique_ptr<float[], Free> data_;
  std::int64_t floats_ = 0;
};

}  // namespace es::gpu
