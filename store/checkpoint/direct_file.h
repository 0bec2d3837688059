#pragma once
// Files written and read past the system's page cache (O_DIRECT): what is written once and hardly
// ever read takes no memory from others, costs the processor a tenth of a copy into the cache, and
// what is read comes from the disk itself. A file system that does not do that gets ordinary reads
// and writes; the bytes are the same.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <span>

#include "proto/base/result.h"
#include "store/checkpoint/file_system.h"

namespace es::store {

// What disks ask of offset, size and address of a direct transfer, with room to spare.
inline constexpr std::size_t kDirectAlignment = 4096;

// Memory with that alignment, not initialised.
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

// A new file at `path`. Appended spans that begin and end at a kDirectAlignment, while the file
// does too, are written from where they are; others through a buffer. Errors: as
// FileSystem::create_file.
Result<std::unique_ptr<WritableFile>> create_direct_file(const std::filesystem::path& path);

// Reads a file from its beginning to its end. Not thread-safe.
class DirectReader {
 public:
  // Errors: not found; failure (it cannot be opened).
  static Result<DirectReader> open(const std::filesystem::path& path);
  DirectReader(DirectReader&& other) noexcept;
  DirectReader& operator=(DirectReader&&) = delete;
  ~DirectReader();

  // The next bytes: at least one and at most `bytes_max` of them, none at the file's end. Valid
  // until the next call. Error (failure): the system's.
  Result<std::span<const std::byte>> next(std::uint64_t bytes_max);

 private:
  DirectReader(int descriptor, std::filesystem::path path);
  Status fill();

  int descriptor_;
  std::filesystem::path path_;
  DirectBuffer buffer_;
  std::span<const std::byte> rest_;  // of the buffer: read from the file, not given out yet
};

}  // namespace es::store
