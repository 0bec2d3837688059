#pragma once
// Reads what can still be read from a damaged RocksDB database.
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

struct Salvage {
  std::map<std::string, std::string> pairs;  // each has a valid checksum
  std::vector<std::string> losses;           // what could not be read, one line of text for each
};

// Reads the database in `directory` without changing it. It uses a copy in the directory `copy`,
// which must not exist and is removed at the end.
//
// `starts` returns keys, ascending, from which there may be readable pairs behind a damaged place.
// It is given the pairs that were read until then and the last key before the damaged place.
//
// Error (failure): nothing can be read, or the copy cannot be written.
Result<Salvage> salvage_database(
    const std::filesystem::path& directory, const std::filesystem::path& copy,
    const std::function<std::vector<std::string>(const std::map<std::string, std::string>& pairs,
                                                 const std::string& after)>& starts,
    const std::function<std::string(const std::string& key)>& name_of_key);

}  // namespace es::store
