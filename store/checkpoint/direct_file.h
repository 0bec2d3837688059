#pragma once
// Files that are written and read without the page cache of the system (O_DIRECT). They hold data
// that is written once and hardly ever read: it takes no memory from other files, costs the
// processor a tenth of a copy into the cache, and is read from the disk itself. On a file system
// without O_DIRECT the functions use ordinary reads and writes; the bytes are the same.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <span>

#include "proto/base/result.h"
#include "store/checkpoint/file_system.h"

namespace es::store {

// Alignment in bytes of the offset, size and address of a direct transfer. Disks need at most this.
inline constexpr std::size_t kDirectAlignment = 4096;

// Uninitialised memory with that alignment.
class DirectBuffer {
 public:
  explicit DirectBuffer(std::size_t bytes)
      : data_(static_cast<std::byte*>(::operator new(bytes, kUnit))), bytes_(bytes) {}
  std::span<std::byte> bytes() const { return {data_.get(), bytes_}; }

 private:
  static constexpr std::align_val_t kUnit{kDirectAlignment};
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, kUnit); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t bytes_;
};

// Creates a new file at `path`. An appended span is written directly from its memory if it begins
// and ends at a multiple of kDirectAlignment and the end of the file is at one too; other spans
// pass through a buffer. Errors as for FileSystem::create_file.
Result<std::unique_ptr<WritableFile>> create_direct_file(const std::filesystem::path& path);

// Reads a file from its beginning to its end. Not thread-safe.
class DirectReader {
 public:
  // Errors: not found; failure (it cannot be opened).
  static Result<DirectReader> open(const std::filesystem::path& path);
  DirectReader(DirectReader&& other) noexcept;
  DirectReader& operator=(DirectReader&&) = delete;
  ~DirectReader();

  // Returns the next bytes, at least one and at most `bytes_max`; none at the end of the file. The
  // span is valid until the next call. Error (failure): that of the system.
  Result<std::span<const std::byte>> next(std::uint64_t bytes_max);

 private:
  DirectReader(int descriptor, std::filesystem::path path);
  Status fill();

  int descriptor_;
  std::filesystem::path path_;
  DirectBuffer buffer_;
  std::span<const std::byte> rest_;  // bytes in the buffer that next() has not returned yet
};

}  // namespace es::store
