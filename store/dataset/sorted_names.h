#pragma once
// The entries of a directory of a data set.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

// The names of the entries for which `wanted` is true, in the order of their bytes. Errors: refused
// (outside of the roots); not found (the directory cannot be listed).
Result<std::vector<std::string>> sorted_names(
    const std::filesystem::path& directory,
    const std::function<bool(const std::filesystem::directory_entry&)>& wanted);

}  // namespace es::store
