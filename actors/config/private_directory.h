#pragma once
// Directories of a daemon: sockets, state and logs, which other users may not enter.
#include <filesystem>

#include "proto/base/result.h"

namespace es::actors {

// Makes the directory and what is missing above it, each with mode 0700. One that is there and ours
// gets this mode. Error: failure (it cannot be made, or is no directory); refused (it is somebody
// else's, or one that everybody shares, such as /tmp).
Status make_private_directory(const std::filesystem::path& directory);

}  // namespace es::actors
