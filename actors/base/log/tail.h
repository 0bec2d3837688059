#pragma once
// A part of a log file, without reading the rest of it. Any thread.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace es::log {

struct Part {
  std::string text;       // whole lines; a line of more than the allowed bytes is cut
  std::uint64_t end = 0;  // the place of the file behind the text, in bytes
  bool complete = false;  // nothing follows, now or later
};

// Returns at most `bytes_max` bytes from the place `begin` on, which is the end of an earlier part.
// From 0 on it is the end of the file instead, as in tail_of. `is_over`: nothing is written any
// more, so that the last line is whole even without its end. A file that cannot be read is empty.
Part part_of(const std::filesystem::path& file, std::uint64_t begin, std::size_t bytes_max,
             bool is_over);

// Returns at most `bytes_max` bytes from the end of the file, without the rest of a line that
// begins before them; a single longer line is cut at its beginning. Empty if the file cannot be
// read.
std::string tail_of(const std::filesystem::path& file, std::size_t bytes_max);

}  // namespace es::log
