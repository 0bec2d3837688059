#pragma once
// The checkpoints in a directory: finding them, and choosing those that are no longer needed
// (removal.h removes one).
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
  std::optional<CheckpointHead> head;  // nullopt if the manifest cannot be read
  std::uint64_t bytes = 0;             // total size of its files
  std::string damage;                  // problem that open() or verify() found; empty if none
  // As in its head. For format 3, which does not contain it, the last change of its manifest.
  std::uint64_t written_unix_ms = 0;

  // The run that wrote it. For format 3 only the name of the job is known.
  std::string run() const;
};

// A path that the search did not look into.
struct CatalogSkip {
  std::filesystem::path path;
  std::string why;
  bool unreadable = false;  // true: it may contain checkpoints; false: it is a symbolic link
};

struct Catalog {
  // Ordered by parent directory, run, time of writing, version and name. The runs of a directory
  // are ordered by the time of their last checkpoint.
  std::vector<CatalogEntry> entries;
  std::vector<CatalogSkip> skipped;
};

// Returns `root` itself if it is a checkpoint, otherwise the checkpoints up to two levels below it
// (DIRECTORY/JOB/step-N). Symbolic links below it are not followed. With `verify`, every block is
// read. Errors: not found (no such directory), failure (it cannot be read).
Result<Catalog> list_checkpoints(const std::filesystem::path& root, bool verify);

// Indices of the entries beyond the `keep` newest undamaged ones of each directory and run, where
// the time of writing decides which is newest. Damaged entries are neither counted nor returned.
// REQUIRES: entries of list_checkpoints.
std::vector<std::size_t> beyond_newest(const std::vector<CatalogEntry>& entries, std::size_t keep);

struct LeftoversRemoved {
  std::vector<std::filesystem::path> removed;
  std::vector<std::string> stays;   // one line each: directories that contain other files
  std::vector<std::string> failed;  // one line each: errors of the disk
};

// Finds the ".NAME.partial-*" directories in `parent` whose writers were processes of this machine
// that have ended; `alive` decides that for a process id. Error (failure): `parent` cannot be read.
Result<std::vector<std::filesystem::path>> find_leftovers(
    const std::filesystem::path& parent, const std::function<bool(std::uint64_t pid)>& alive);
// Removes from these directories what a writer of checkpoints has created (removal.h).
LeftoversRemoved remove_leftovers(FileSystem& files,
                                  const std::vector<std::filesystem::path>& leftovers);

// Whether this machine has a process with this id that has not ended.
bool process_exists(std::uint64_t pid);

}  // namespace es::store
