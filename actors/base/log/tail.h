#pragma once
// The end of a log file, without reading the rest of it.
#include <cstddef>
#include <filesystem>
#include <string>

namespace es::log {

// Returns at most `bytes_max` bytes from the end of the file, without the rest of a line that
// begins before them; a single longer line is cut at its beginning. Empty if the file cannot be
// read. Any thread.
std::string tail_of(const std::filesystem::path& file, std::size_t bytes_max);

}  // namespace es::log
