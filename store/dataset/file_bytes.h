#pragma once
// A whole file in memory.
#include <cstdint>
#include <filesystem>
#include <string>

#include "proto/base/result.h"

namespace es::store {

// The bytes of `file`, decompressed if it is a gzip file. Memory grows with the bytes that really
// arrive. `where` stands for the file in errors; empty: its path.
// Error: not found; failure (cannot be read); usage (more than bytes_max, damaged gzip).
Result<std::string> file_bytes(const std::filesystem::path& file, std::uint64_t bytes_max,
                               const std::string& where = {});

}  // namespace es::store
