#pragma once
// FileSystem: the few operations by which a checkpoint reaches the disk. An interface so that tests
// can make any of them fail, or stop the world between two of them.
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "proto/base/result.h"

namespace es::store {

// A new file that is being written. Destroyed without finish(): closed, contents undefined.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status append(std::span<const std::byte> bytes) = 0;
  // Forces the contents to the disk and closes. Nothing may be called afterwards.
  virtual Status finish() = 0;
};

// Thread-safe. Every error is a failure that names the path and the system's reason, unless said.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Makes a directory with a new, unique name: `prefix`, then PID-N-MACHINE, of this process and
  // machine_name().
  virtual Result<std::filesystem::path> make_unique_directory(
      const std::filesystem::path& prefix) = 0;
  // Error also when the file exists.
  virtual Result<std::unique_ptr<WritableFile>> create_file(const std::filesystem::path& file) = 0;
  // The same, for many bytes that nobody reads soon: written past the system's cache where the
  // file system can (direct_file.h).
  virtual Result<std::unique_ptr<WritableFile>> create_large_file(
      const std::filesystem::path& file) = 0;
  // Forces the directory's entries to the disk.
  virtual Status sync_directory(const std::filesystem::path& directory) = 0;
  // Error (refused): `to` exists and is not an empty directory.
  virtual Status rename_directory(const std::filesystem::path& from,
                                  const std::filesystem::path& to) = 0;
  // No error when it is not there. A symbolic link goes itself, not what it points to.
  virtual Status remove_file(const std::filesystem::path& file) = 0;
  // Error (refused): it is not empty.
  virtual Status remove_directory(const std::filesystem::path& directory) = 0;
};

// The machine's host name as a part of file names: letters, digits, '_', '.', at most 32.
std::string machine_name();

// The machine's file system. Lives as long as the process.
FileSystem& posix_file_system();

}  // namespace es::store
