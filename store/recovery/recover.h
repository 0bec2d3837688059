#pragma once
// Recovery of a damaged state directory: what is whole goes into a new one, what is not is named,
// and the damaged original is kept.
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

struct Recovery {
  std::filesystem::path original;  // where the damaged directory is now; empty: nothing was damaged
  std::map<std::string, std::size_t> kept;  // records, by table
  std::vector<std::string> dropped;  // what is not there any more, one line each, for a person
};

// Of a directory that nobody has open. One that is whole is left as it is. Otherwise the records
// that are whole, and make sense together, go into a new directory in its place, and the old one is
// beside it, as NAME.damaged-N. Numbers that must not be given out twice go on behind a gap.
// Nothing is moved before the new directory is complete and on the disk; NAME.recovered and
// NAME.copy are used meanwhile. Errors: not found (there is no such directory), refused (in use),
// failure (nothing of it can be read, another schema version, or the disk takes no copy); then
// nothing was changed.
Result<Recovery> recover_state_directory(const std::filesystem::path& directory);

// Drops what cannot be read or makes no sense without something that was lost, and repairs the
// counters: the decision in recover_state_directory. `dropped`: what is known to be lost already;
// with nothing lost nothing changes.
void make_consistent(std::map<std::string, std::string>& pairs, std::vector<std::string>& dropped);

}  // namespace es::store
