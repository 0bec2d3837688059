#pragma once
// An open file of a data set that is read at any place.
//
// Const functions are thread-safe. The file is read and not mapped, so that a file which is cut
// short gives an error and ends no process.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "proto/base/file_descriptor.h"
#include "proto/base/result.h"

namespace es::store {

class DataFile {
 public:
  // Errors: not found; refused (outside of the roots); failure (cannot be read, or is no regular
  // file).
  // `where` replaces the path in errors, except in one about the roots; if empty, the path is used.
  static Result<DataFile> open(const std::filesystem::path& path, const std::string& where = {});
  // The same of an open file, which is called `name` in errors.
  static Result<DataFile> adopt(std::string name, std::unique_ptr<const FileDescriptor> descriptor);

  const std::string& name() const { return name_; }
  // Stays open as long as this object.
  int descriptor() const { return descriptor_->get(); }
  // The size of the file when it was opened.
  std::uint64_t bytes() const { return bytes_; }

  // Reads the bytes from `at` on. Error (failure): the file cannot be read, or ends before.
  Status read(std::uint64_t at, std::span<std::uint8_t> out) const;

 private:
  DataFile(std::string name, std::unique_ptr<const FileDescriptor> descriptor, std::uint64_t bytes)
      : name_(std::move(name)), descriptor_(std::move(descriptor)), bytes_(bytes) {}

  std::string name_;
  std::unique_ptr<const FileDescriptor> descriptor_;
  std::uint64_t bytes_;
};

}  // namespace es::store
