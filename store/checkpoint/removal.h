#pragma once
// Removes from a disk what a writer of checkpoints has created, and nothing else. A user's own
// files in such a directory stay, and symbolic links are not followed.
#include <filesystem>
#include <string>
#include <vector>

#include "proto/base/result.h"
#include "store/checkpoint/file_system.h"

namespace es::store {

// Removes the files of a checkpoint from `directory`, the manifest first, and then the directory
// unless it contains something else. Returns the names of the other entries, ascending; if the list
// is empty, the directory was removed. Error (failure): something could not be removed.
Result<std::vector<std::string>> remove_own_files(FileSystem& files,
                                                  const std::filesystem::path& directory);

// Removes a checkpoint. If its directory contains nothing else, it is first renamed to a name that
// no reader uses, ".NAME.partial-*", so that no reader sees a part of it. Returns the same as
// remove_own_files. Errors: not found (there is no checkpoint), refused (a symbolic link, or a
// directory that EasyScale did not write), failure (disk).
Result<std::vector<std::string>> remove_checkpoint(FileSystem& files,
                                                   const std::filesystem::path& directory);

// "step-3: other files stay in it: notes.txt, plots". REQUIRES: `others` is not empty.
std::string stays_text(const std::filesystem::path& directory,
                       const std::vector<std::string>& others);

}  // namespace es::store
