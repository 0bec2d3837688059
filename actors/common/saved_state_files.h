#pragma once
// The saved states of jobs as the files of one node: what a node agent does with them for a head
// that may not see this disk. A saved state is a checkpoint (store/checkpoint) that the head knows
// by its path, its version and its digests.
//
// Functions of the file system; they may take as long as it takes. Thread-safe.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "actors/protocol/messages.h"
#include "proto/base/result.h"
#include "proto/messages.h"

namespace es::actors {

struct SavedState {
  std::string path;
  Version version = 0;
  protocol::VersionDigests digests;  // both zero: not known, any will do
  bool operator==(const SavedState&) const = default;
};

void put(wire::SavedState::Builder b, const SavedState& state);
SavedState saved_state_from(wire::SavedState::Reader r);

struct FoundState {
  SavedState state;
  protocol::Sight sight = protocol::Sight::kUnclear;
  std::string error;  // why not whole
};

// By its manifest and the sizes of its files; its bytes are not read.
FoundState find_state(const SavedState& state);
// Reads and verifies all of it.
FoundState verify_state(const SavedState& state);

// One piece of file `file` of store::kCheckpointFiles. Fewer bytes only where the file ends.
Result<std::vector<std::byte>> read_part(const std::filesystem::path& directory, std::size_t file,
                                         std::uint64_t offset, std::uint32_t bytes);
Result<std::vector<std::uint64_t>> file_sizes(const std::filesystem::path& directory);

struct StateRemoval {
  std::vector<SavedState> states;  // those that are still these
  // Not empty: and every directory PREFIX and a number less than `below`, unless it is in `keep`.
  std::string prefix;
  std::uint64_t below = 0;
  std::vector<std::string> keep;
};
struct Removed {
  std::vector<std::string> paths;
  std::vector<std::string> problems;  // one line each
};
// What is not there is neither.
Removed remove_states(const StateRemoval& removal);

// A file in `directory`, which is made, that holds `id`: whoever reads the same there sees the same
// disk. Error (failure): nothing can be written there.
Status write_probe(const std::filesystem::path& directory, const std::string& id);
struct DirectoryTrial {
  bool shared = false;
  std::string problem;  // why nothing can be written there; empty: something was
};
// What `directory` is here, where the head has written a probe.
DirectoryTrial try_directory(const std::filesystem::path& directory, const std::string& id);

}  // namespace es::actors
