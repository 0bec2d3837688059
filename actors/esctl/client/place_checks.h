#pragma once
// The checks of `esctl doctor` that try something: directories, keys and ports. Each one leaves
// nothing behind.
#include <filesystem>
#include <string>

#include "actors/views/doctor_view.h"

namespace es::actors::esctl {

// Whether checkpoints and a journal can be kept in this directory: it writes a file in a new
// directory in it, calls fsync for both, renames the directory, and reads the file back. Also the
// free space, and a file system that loses its content or is slow. `what` names the directory in
// the text. A directory that is missing is fine if `may_be_missing`, because the head makes it.
Findings check_directory(const std::filesystem::path& directory, const std::string& what,
                         bool may_be_missing);

// The files of a key directory, their permissions, and the authorized keys.
Findings check_keys(const std::filesystem::path& directory);

// Whether this user can listen there: the address is one of this machine, and the port is free.
Findings check_port(const std::string& endpoint);

}  // namespace es::actors::esctl
