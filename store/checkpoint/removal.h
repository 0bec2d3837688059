#pragma once
// Removing from a disk what a writer of checkpoints has made, and nothing else: a user's own files
// in such a directory stay, and no symbolic link is followed.
#include <filesystem>
#include <string>
#include <vector>

#include "proto/base/result.h"
#include "store/checkpoint/file_system.h"

namespace es::store {

// Removes the files of a checkpoint from `directory`, the manifest first, and then the directory
// unless something else is in it. Returns the names of what else is in it, ascending; empty: the
// directory is gone. Errors (failure): what could not be removed.
Result<std::vector<std::string>> remove_own_files(FileSystem& files,
                                                  const std::filesystem::path& directory);

// Removes a checkpoint. When nothing else is in its directory, that is renamed first to a name that
// nobody reads, ".NAME.partial-*", so that no reader sees a part of it. Returns what
// remove_own_files does. Errors: not found (there is no checkpoint), refused (a symbolic link, or
// nothing that EasyScale wrote), failure (disk).
Result<std::vector<std::string>> remove_checkpoint(FileSystem& files,
                                                   const std::filesystem::path& directory);

// "step-3: other files stay in it: notes.txt, plots". REQUIRES: `others` is not empty.
std::string stays_text(const std::filesystem::path& directory,
                       const std::vector<std::string>& others);

}  // namespace es::store
