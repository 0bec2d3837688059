#pragma once
// The checkpoints that lie in a directory: finding them, and choosing those that are not wanted any
// more (removal.h removes one).
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
  // As its head says; of format 3, which does not say, when its manifest was last changed.
  std::uint64_t written_unix_ms = 0;

  // Which run wrote it. Format 3 tells only the name of the job.
  std::string run() const;
};

// What was found on the way and not looked into.
struct CatalogSkip {
  std::filesystem::path path;
  std::string why;
  bool unreadable = false;  // checkpoints may be in it; else it is a symbolic link
};

struct Catalog {
  // Ordered by parent directory, run, time of writing, version and name; the runs of a directory by
  // when they last wrote.
  std::vector<CatalogEntry> entries;
  std::vector<CatalogSkip> skipped;
};

// `root` itself when it is a checkpoint, else those up to two levels below it
// (DIRECTORY/JOB/step-N). Symbolic links below it are not followed. With `verify` every block is
// read. Errors: not found (no such directory), failure (it cannot be read).
Result<Catalog> list_checkpoints(const std::filesystem::path& root, bool verify);

// Indices of the entries beyond the `keep` newest undamaged ones of each directory and run, newest
// by time of writing. A damaged one neither counts nor goes. REQUIRES: entries of list_checkpoints.
std::vector<std::size_t> beyond_newest(const std::vector<CatalogEntry>& entries, std::size_t keep);

struct LeftoversRemoved {
  std::vector<std::filesystem::path> removed;
  std::vector<std::string> stays;   // one line each: somebody's own files are in it
  std::vector<std::string> failed;  // one line each: the disk's errors
};

// Finds the ".NAME.partial-*" directories in `parent` whose writers were on this machine and are
// dead: `alive` tells it of a process id. Error (failure): `parent` cannot be read.
Result<std::vector<std::filesystem::path>> find_leftovers(
    const std::filesystem::path& parent, const std::function<bool(std::uint64_t pid)>& alive);
// Removes from these what a writer of checkpoints has made (removal.h).
LeftoversRemoved remove_leftovers(FileSystem& files,
                                  const std::vector<std::filesystem::path>& leftovers);

// Whether this machine has a process of that id, which has not ended.
bool process_exists(std::uint64_t pid);

}  // namespace es::store
