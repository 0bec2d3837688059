#pragma once
// What can still be read of a damaged RocksDB database.
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

struct Salvage {
  std::map<std::string, std::string> pairs;  // each with a checksum that holds
  std::vector<std::string> losses;           // what could not be read, one line for a person each
};

// Reads the database in `directory`, which it does not change, by way of a copy in `copy`, a
// directory that does not exist and does not exist afterwards.
// `starts`: keys from which there may be something to read again, behind a damaged place, given the
// pairs that were read so far and the last key before that place; ascending.
// Error (failure): nothing can be read, or the copy cannot be written.
Result<Salvage> salvage_database(
    const std::filesystem::path& directory, const std::filesystem::path& copy,
    const std::function<std::vector<std::string>(const std::map<std::string, std::string>& pairs,
                                                 const std::string& after)>& starts,
    const std::function<std::string(const std::string& key)>& name_of_key);

}  // namespace es::store
