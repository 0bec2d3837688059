#pragma once
// ByteSource: the bytes of a file in order, decompressed if it is a gzip file.
//
// gzip is recognised by its first two bytes, whatever the file's name. Reads in bounded pieces, so
// a small file that decompresses to terabytes costs no more than the caller asks for. Not
// thread-safe.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "proto/base/result.h"

namespace es::store {

class ByteSource {
 public:
  // `where` stands for the file in errors, here and later; empty: its path. Error: not found, or
  // failure when it exists and is no regular file or cannot be read. (Opening a pipe would wait for
  // whoever writes to it.)
  static Result<ByteSource> open(const std::filesystem::path& file, const std::string& where = {});
  ~ByteSource();
  ByteSource(ByteSource&&) noexcept;
  ByteSource& operator=(ByteSource&&) noexcept;

  // Fills `out` from the start and returns how many bytes were there: fewer than out.size() only at
  // the end of the data. At that end the checksum of a gzip file has been verified.
  // Error (usage): compressed data that is damaged, cut short, or followed by other bytes.
  Result<std::size_t> read(std::span<std::uint8_t> out);

  // Size of the file; nothing when it is compressed: only reading it all tells.
  std::optional<std::uint64_t> plain_bytes() const;

  // Size of the data modulo 2^32 as the end of a gzip file says, without reading what is before;
  // nothing when it is not compressed. Only read() finds out whether it is true.
  std::optional<std::uint32_t> promised_bytes() const;

 private:
  struct State;
  explicit ByteSource(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace es::store
