#pragma once
// The checkpoints that lie in a directory: finding them, and removing those that are not wanted any
// more, so that no reader ever sees half of one.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/result.h"
#include "store/checkpoint/file_system.h"
#include "store/checkpoint/manifest.h"

namespace es::store {

struct CatalogEntry {
  std::filesystem::path directory;
  std::optional<CheckpointHead> head;  // none when the manifest cannot be read
  std::uint64_t bytes = 0;             // of its files
  std::string damage;                  // what open(), or verify(), found; empty: nothing
};

// `root` itself when it is a checkpoint, else those up to two levels below it
// (DIRECTORY/JOB/step-N); ordered by parent directory, job, version and name. With `verify` every
// block is read. Errors: not found (no such directory), failure (it cannot be read).
Result<std::vector<CatalogEntry>> list_checkpoints(const std::filesystem::path& root, bool verify);

// Indices of the entries beyond the `keep` newest undamaged ones of each directory and job. A
// damaged one neither counts nor goes. REQUIRES: entries of list_checkpoints.
std::vector<std::size_t> beyond_newest(const std::vector<CatalogEntry>& entries, std::size_t keep);

// Removes a checkpoint: renamed first to a name that nobody reads, ".NAME.partial-*".
Status remove_checkpoint(FileSystem& files, const std::filesystem::path& directory);

// Removes the ".NAME.partial-*" directories in `parent` whose writers are dead: `alive` tells it of
// a process id of this machine. Returns how many. Errors: those of the first that could not be
// removed.
Result<std::size_t> remove_leftovers(FileSystem& files, const std::filesystem::path& parent,
                                     const std::function<bool(std::uint64_t pid)>& alive);

// Whether this machine has a process of that id.
bool process_exists(std::uint64_t pid);

}  // namespace es::store
