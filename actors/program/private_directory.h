#pragma once
// Directories of a daemon for sockets, state and logs, which other users may not enter.
#include <filesystem>

#include "proto/base/result.h"

namespace es::actors {

// Creates the directory and its missing parents with mode 0700. An existing directory that belongs
// to this user gets this mode. Errors: failure (it cannot be created, or is not a directory);
// refused (it belongs to another user, or all users share it, such as /tmp).
Status make_private_directory(const std::filesystem::path& directory);

}  // namespace es::actors
