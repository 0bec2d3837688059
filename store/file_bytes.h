#pragma once
// Reads a whole file into memory.
#include <cstdint>
#include <filesystem>
#include <string>

#include "proto/base/result.h"

namespace es::store {

// Returns the bytes of `file`, decompressed if it is a gzip file. Memory grows with the bytes that
// are actually read. `where` replaces the path in errors; if empty, the path is used. Errors: not
// found; failure (cannot be read); usage (more than bytes_max, or damaged gzip data).
Result<std::string> file_bytes(const std::filesystem::path& file, std::uint64_t bytes_max,
                               const std::string& where = {});

}  // namespace es::store
