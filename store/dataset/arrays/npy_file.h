#pragma once
// An open NumPy file of which rows are read when they are needed.
//
// A row is everything with one index on the first axis. Const functions are thread-safe.
#include <cstddef>
#include <filesystem>
#include <span>

#include "store/dataset/arrays/npy_header.h"
#include "store/dataset/data_file.h"

namespace es::store {

class NpyFile {
 public:
  // Errors: those of DataFile::open; those of read_npy_header; usage if the file has not the size
  // that its header says.
  static Result<NpyFile> open(const std::filesystem::path& file);
  // The same of an open file.
  static Result<NpyFile> read_from(DataFile file);

  const std::string& name() const { return file_.name(); }
  const NpyHeader& header() const { return header_; }
  std::uint64_t rows() const { return header_.shape.front(); }

  // Reads rows first, first + 1, ... REQUIRES: they exist; out.size() is a multiple of
  // header().row_bytes(). Error (failure): the file cannot be read any more.
  Status read(std::uint64_t first, std::span<std::uint8_t> out) const;

 private:
  NpyFile(DataFile file, NpyHeader header) : file_(std::move(file)), header_(std::move(header)) {}

  DataFile file_;
  NpyHeader header_;
};

}  // namespace es::store
