#pragma once
// The lines of a text file one after the other, decompressed if it is a gzip file. Memory: one line
// and one piece of the file. Not thread-safe.
#include <filesystem>
#include <string>
#include <string_view>

#include "store/dataset/byte_source.h"

namespace es::store {

inline constexpr std::size_t kLineBytesMax = 4096;

class LineReader {
 public:
  static Result<LineReader> open(const std::filesystem::path& file);

  // False at the end. The line is without its end (\n or \r\n) and valid until the next call. An
  // empty line after the last \n is none. Error: as ByteSource; usage for a line that is too long.
  Result<bool> next(std::string_view& line);

  std::uint64_t number() const { return number_; }  // of the last line, from 1
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
