#pragma once
// Directories for sockets, state, logs and temporary files, which other users may not enter.
#include <filesystem>

#include "proto/base/result.h"

namespace es::actors {

// Creates the directory and its missing parents with mode 0700. An existing directory that belongs
// to this user gets this mode. Returns whether other users could enter it before. Errors: failure
// (it cannot be created, or is not a directory); refused (it belongs to another user, or all users
// share it, such as /tmp).
Result<bool> make_private_directory(const std::filesystem::path& directory);

// Creates a new directory with mode 0700 in $TMPDIR, or in /tmp if that is not set, is no absolute
// path, or is so long that the path of a socket in the new directory could have more than the 107
// bytes that the system allows. The caller removes it. Error: failure (it cannot be created).
Result<std::filesystem::path> make_temporary_directory();

}  // namespace es::actors
