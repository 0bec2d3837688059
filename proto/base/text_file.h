#pragma once
// Reads a small text file as a whole.
#include <cstddef>
#include <filesystem>
#include <string>

#include "proto/base/result.h"

namespace es {

// Returns the content of a file, pipe or device; at most bytes_max + 1 bytes are read. Errors name
// the path and the system's reason. They are: not found (the path does not exist); usage (more than
// bytes_max bytes); failure (a directory, no permission, and others).
Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t bytes_max);

}  // namespace es
