#pragma once
// An open NumPy file of which rows are read when they are needed.
//
// A row is everything with one index on the first axis. Const functions are thread-safe. The file
// is read and not mapped, so that a file which is cut short gives an error and ends no process.
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "proto/base/file_descriptor.h"
#include "store/dataset/arrays/npy_header.h"

namespace es::store {

class NpyFile {
 public:
  // Errors: not found; refused (outside of the roots); failure (cannot be read); those of
  // read_npy_header; usage if the file has not the size that its header says.
  static Result<NpyFile> open(const std::filesystem::path& file);
  // The same of an open file, which is called `name` in errors.
  static Result<NpyFile> read_from(std::string name,
                                   std::unique_ptr<const FileDescriptor> descriptor);

  const std::string& name() const { return name_; }
  const NpyHeader& header() const { return header_; }
  std::uint64_t rows() const { return header_.shape.front(); }

  // Reads rows first, first + 1, ... REQUIRES: they exist; out.size() is a multiple of
  // header().row_bytes(). Error (failure): the file cannot be read any more.
  Status read(std::uint64_t first, std::span<std::uint8_t> out) const;

 private:
  NpyFile(std::string name, std::unique_ptr<const FileDescriptor> descriptor)
      : name_(std::move(name)), descriptor_(std::move(descriptor)) {}
  Status read_bytes(std::uint64_t at, std::span<std::uint8_t> out) const;
  Status read_header();

  std::string name_;
  std::unique_ptr<const FileDescriptor> descriptor_;
  NpyHeader header_;
};

}  // namespace es::store
