#pragma once
// FileSystem contains the few operations that bring a checkpoint to the disk. It is an interface so
// that tests can make any operation fail, or stop the process between two of them.
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "proto/base/result.h"

namespace es::store {

// A new file that is being written. If it is destroyed without finish(), it is closed and its
// contents are undefined.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status append(std::span<const std::byte> bytes) = 0;
  // Forces the contents to the disk and closes the file. No function may be called afterwards.
  virtual Status finish() = 0;
};

// Thread-safe. Unless stated otherwise, an error is a failure that names the path and the system's
// reason.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Creates a directory with a new, unique name: `prefix` followed by PID-N-MACHINE, with the id of
  // this process and machine_name().
  virtual Result<std::filesystem::path> make_unique_directory(
      const std::filesystem::path& prefix) = 0;
  // It is also an error if the file exists.
  virtual Result<std::unique_ptr<WritableFile>> create_file(const std::filesystem::path& file) = 0;
  // The same for a large file that is not read soon. It is written without the cache of the system
  // if the file system supports that (direct_file.h).
  virtual Result<std::unique_ptr<WritableFile>> create_large_file(
      const std::filesystem::path& file) = 0;
  // Forces the entries of the directory to the disk.
  virtual Status sync_directory(const std::filesystem::path& directory) = 0;
  // Error (refused): `to` exists and is not an empty directory.
  virtual Status rename_directory(const std::filesystem::path& from,
                                  const std::filesystem::path& to) = 0;
  // It is no error if the file does not exist. A symbolic link itself is removed, not its target.
  virtual Status remove_file(const std::filesystem::path& file) = 0;
  // Error (refused): the directory is not empty.
  virtual Status remove_directory(const std::filesystem::path& directory) = 0;
};

// Forces the name of `path`, which is an entry of its parent, to the disk.
Status sync_name(FileSystem& files, const std::filesystem::path& path);

// The host name in a form for file names: letters, digits, '_' and '.', at most 32 characters.
std::string machine_name();

// The file system of the machine. It lives as long as the process.
FileSystem& posix_file_system();

}  // namespace es::store
