#pragma once
// Reads the lines of a text file in order, decompressed if it is a gzip file. It uses memory for
// one line and one piece of the file. Not thread-safe.
#include <filesystem>
#include <string>
#include <string_view>

#include "store/byte_source.h"

namespace es::store {

inline constexpr std::size_t kLineBytesMax = 4096;

class LineReader {
 public:
  static Result<LineReader> open(const std::filesystem::path& file);

  // Returns false at the end of the file. The line does not include its end (\n or \r\n) and is
  // valid until the next call. There is no empty line after the last \n. Errors: as ByteSource;
  // usage for a line that is too long.
  Result<bool> next(std::string_view& line);

  std::uint64_t number() const { return number_; }  // number of the last line, from 1
  std::string where() const;                        // "FILE: line N"

 private:
  LineReader(std::string file, ByteSource source);

  std::string file_;
  ByteSource source_;
  std::string piece_;
  std::size_t at_ = 0;
  bool finished_ = false;
  std::uint64_t number_ = 0;
};

}  // namespace es::store
