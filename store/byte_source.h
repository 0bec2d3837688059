#pragma once
// ByteSource reads the bytes of a file in order, decompressed if it is a gzip file.
//
// A gzip file is recognised by its first two bytes, not by its name. Reads come in bounded pieces,
// so a small file that decompresses to terabytes needs no more memory than the caller asks for. Not
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
  // `where` replaces the path of the file in all errors; if empty, the path is used. Errors: not
  // found; failure if the file exists but is not a regular file, or cannot be read. (Opening a pipe
  // would wait for a writer.)
  static Result<ByteSource> open(const std::filesystem::path& file, const std::string& where = {});
  ~ByteSource();
  ByteSource(ByteSource&&) noexcept;
  ByteSource& operator=(ByteSource&&) noexcept;

  // Fills `out` from its beginning and returns the number of bytes, which is smaller than
  // out.size() only at the end of the data. At that end the checksum of a gzip file has been
  // verified. Error (usage): the compressed data are damaged, cut, or followed by other bytes.
  Result<std::size_t> read(std::span<std::uint8_t> out);

  // Size of the file in bytes; nullopt if it is compressed, since the size is then known only after
  // reading everything.
  std::optional<std::uint64_t> plain_bytes() const;

  // Size of the data modulo 2^32 according to the end of a gzip file, without reading the data
  // before it; nullopt if the file is not compressed. Only read() verifies the size.
  std::optional<std::uint32_t> promised_bytes() const;

 private:
  struct State;
  explicit ByteSource(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace es::store
