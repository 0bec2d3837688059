#pragma once
// Which files and directories other users of the machine must not read or change.
#include <filesystem>
#include <string>

#include "proto/base/result.h"

namespace es {

// For a file with a secret. `what` names it in errors, e.g. "key file". The group of a file of the
// superuser may read it, unless this process is the superuser. Errors: not found; refused (other
// users may read or change it).
Status check_private_file(const std::filesystem::path& file, const std::string& what);

// For a file or directory that says who may do what. Errors: not found; refused (other users may
// change it).
Status check_own_file(const std::filesystem::path& file, const std::string& what);

}  // namespace es
