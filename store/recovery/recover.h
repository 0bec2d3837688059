#pragma once
// Recovers a damaged state directory. Whole records go into a new directory, lost ones are named,
// and the damaged original is kept.
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

struct Recovery {
  // New place of the damaged directory; empty if there was no damage.
  std::filesystem::path original;
  std::map<std::string, std::size_t> kept;  // number of records, by table
  std::vector<std::string> dropped;         // what was lost, one line of text for each
};

// Recovers a directory that no process has open. An undamaged directory is not changed. Otherwise
// the undamaged and consistent records go into a new directory in its place, and the old one is
// moved to NAME.damaged-N. Numbers that must not be given out twice continue after a gap. Nothing
// is moved before the new directory is complete and on disk; NAME.recovered, NAME.copy and
// NAME.original are used meanwhile. If the process ends at any moment, the next call completes the
// recovery, and until then open_state_directory() refuses a directory that is not there. Errors:
// not found (there is no such directory), refused (in use), failure (nothing can be read, another
// schema version, or the disk cannot store the copy).
Result<Recovery> recover_state_directory(const std::filesystem::path& directory);

// The decision of recover_state_directory: drops what cannot be read or depends on something lost,
// and raises the counters. `dropped` contains the losses that are already known and receives
// further ones. If nothing is lost, nothing changes.
void make_consistent(std::map<std::string, std::string>& pairs, std::vector<std::string>& dropped);

}  // namespace es::store
