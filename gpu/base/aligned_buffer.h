#pragma once
// AlignedBuffer owns an array of floats. The array is aligned to 64 bytes and is zero at first. A
// buffer can be moved and copied. The address of the array does not change during its lifetime, and
// a move keeps it.
//
// A large buffer asks for huge pages: reading the weights of a 25088 x 4096 layer from memory is 5
// to 10 % faster with them, and there are 512 times fewer page faults. A system that has no huge
// pages left, or does not know the request, provides ordinary pages.
//
// If memory is missing, a constructor throws NoMemory, because it cannot return an error. The
// classes that create large buffers for a job (Engine, and the device half of the worker) turn the
// exception into an Error.
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

// The exception's text is "not enough memory for PURPOSE: N bytes are wanted, this machine has M".
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
  // `purpose` says what the memory is for; it appears in the text of NoMemory.
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

  // The contents are undefined. Use this only if every float is written before it is read. No
  // memory is touched.
  static AlignedBuffer uninitialised(std::int64_t floats, const char* purpose) {
    return AlignedBuffer(floats, purpose, Uninitialised());
  }

  // The whole pages behind the first `floats` floats, in bytes from the start of the array. Equal
  // for all large buffers of one size; none for a small buffer, which may begin inside a page.
  struct Pages {
    std::size_t begin = 0, bytes = 0;
  };
  Pages pages_behind(std::int64_t floats) const {
    if (bytes() < kHugePageBytes) return {};
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t begin = (bytes_of(floats) + page - 1) / page * page;
    const std::size_t end = bytes() / page * page;
    return begin < end ? Pages{begin, end - begin} : Pages{};
  }
  // Replaces pages of the array by a mapping of the file `fd` from its start on. They may only be
  // read from then on. Returns false if the system refuses, and nothing has changed then. REQUIRES:
  // the pages are those of pages_behind(), and the file has the same bytes and never changes.
  bool map_pages(const Pages& pages, int fd) {
    char* const at = reinterpret_cast<char*>(data_.get()) + pages.begin;
    if (::mmap(at, pages.bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
      return false;
    data_.get_deleter().mapped = at;
    data_.get_deleter().mapped_bytes = pages.bytes;
    return true;
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
    void operator()(float* p) const {
      // The memory goes back to the allocator, which may use it again, so it must be ordinary.
      if (mapped != nullptr &&
          ::mmap(mapped, mapped_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
        return;
      ::operator delete(p, alignment);
    }
    std::align_val_t alignment;
    char* mapped = nullptr;  // pages of a file; nullptr: there are none
    std::size_t mapped_bytes = 0;
  };
  static std::align_val_t alignment_of(std::int64_t floats) {
    return std::align_val_t{bytes_of(floats) < kHugePageBytes ? kBufferAlignment : kHugePageBytes};
  }
  static std::size_t physical_bytes() {
    return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
           static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  }
  // A system that overcommits memory would grant any size and later kill the process when it writes
  // to the memory. Therefore a size above the physical memory is refused here.
  static float* allocate(std::int64_t floats, const char* purpose) {
    if (floats == 0) return nullptr;
    const std::size_t bytes = bytes_of(floats);
    void* p = bytes < kHugePageBytes || bytes <= physical_bytes()
                  ? ::operator new(bytes, alignment_of(floats), std::nothrow)
                  : nullptr;
    if (p == nullptr) throw NoMemory(purpose, bytes, physical_bytes());
#if defined(MADV_HUGEPAGE)
    const std::size_t whole = bytes / kHugePageBytes * kHugePageBytes;
    if (whole != 0) madvise(p, whole, MADV_HUGEPAGE);  // only advice: a refusal has no effect
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
