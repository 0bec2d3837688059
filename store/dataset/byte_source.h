#pragma once
// ByteSource: the bytes of a file in order, decompressed if it is a gzip file.
//
// gzip is recognised by its first two bytes, whatever the file's name. Reads in bounded pieces, so
// a small file that decompresses to terabytes costs no more than the caller asks for. Not
// thread-safe.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "proto/base/result.h"

namespace es::store {

class ByteSource {
 public:
  // Error: not found, or failure when the file exists and cannot be read.
  static Result<ByteSource> open(const std::filesystem::path& file);
  ~ByteSource();
  ByteSource(ByteSource&&) noexcept;
  ByteSource& operator=(ByteSource&&) noexcept;

  // Fills `out` from the start and returns how many bytes were there: fewer than out.size() only at
  // the end of the data. At that end the checksum of a gzip file has been verified.
  // Error (usage): compressed data that is damaged, cut short, or followed by other bytes.
  Result<std::size_t> read(std::span<std::uint8_t> out);

 private:
  struct State;
  explicit ByteSource(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace es::store
