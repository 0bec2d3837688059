#pragma once
// A small text file, read whole.
#include <cstddef>
#include <filesystem>
#include <string>

#include "proto/base/result.h"

namespace es {

// The content, of a file, pipe or device; never more than bytes_max + 1 bytes are read. Errors name
// the path and the system's reason: not found (nothing there); usage (more bytes than bytes_max);
// failure (a directory, no permission, ...).
Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t bytes_max);

}  // namespace es
