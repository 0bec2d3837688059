#pragma once
// The saved states of jobs as files of one node. A node agent uses these functions for a head that
// may not see this disk. A saved state is a checkpoint (store/checkpoint) that the head knows by
// its path, its version and its digests.
//
// The functions access the file system and may block for a long time. Thread-safe.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "actors/base/protocol/core/messages.h"
#include "proto/base/result.h"
#include "proto/messages.h"

namespace es::actors {

struct SavedState {
  std::string path;
  Version version = 0;
  VersionDigests digests;  // both zero: not known, any digests match
  bool operator==(const SavedState&) const = default;
};

void put(wire::SavedState::Builder b, const SavedState& state);
SavedState saved_state_from(wire::SavedState::Reader r);

struct FoundState {
  SavedState state;
  protocol::Sight sight = protocol::Sight::kUnclear;
  std::string error;  // why it is not whole
};

// Checks the manifest and the sizes of the files. Does not read their content.
FoundState find_state(const SavedState& state);
// Reads and verifies the whole state.
FoundState verify_state(const SavedState& state);

// Reads a piece of file number `file` of store::kCheckpointFiles. Returns fewer bytes only at the
// end of the file.
Result<std::vector<std::byte>> read_part(const std::filesystem::path& directory, std::size_t file,
                                         std::uint64_t offset, std::uint32_t bytes);
Result<std::vector<std::uint64_t>> file_sizes(const std::filesystem::path& directory);

struct StateRemoval {
  std::vector<SavedState> states;  // removed if the path still contains this state
  // If not empty: every directory whose path is this prefix and a number below `below` is removed
  // too, except for those in `keep`.
  std::string prefix;
  std::uint64_t below = 0;
  std::vector<std::string> keep;
  std::string rescue;  // a directory that may have such directories too; empty: there is none
};
struct Removed {
  std::vector<std::string> paths;
  std::vector<std::string> problems;  // one line each
};
// A state that does not exist is neither a removed path nor a problem.
Removed remove_states(const StateRemoval& removal);

// Writes a file that contains `id` into `directory`, which is created. A process that reads the
// same id there sees the same disk. Error (failure): nothing can be written there.
Status write_probe(const std::filesystem::path& directory, const std::string& id);
struct DirectoryTrial {
  bool shared = false;
  std::string problem;  // why nothing can be written there; empty: it can
};
// Tries `directory` on this node, after the head has written a probe there.
DirectoryTrial try_directory(const std::filesystem::path& directory, const std::string& id);

}  // namespace es::actors
