#pragma once
// Forces the names in a directory to the disk. A file that was forced to the disk itself may still
// have no name after a power cut.
#include <filesystem>

#include "proto/base/result.h"

namespace es::store {

// Forces the entries of the directory to the disk. Error (failure): names the directory.
Status sync_entries(const std::filesystem::path& directory);

// The directory of which `path` is an entry.
std::filesystem::path parent_directory(const std::filesystem::path& path);

}  // namespace es::store
