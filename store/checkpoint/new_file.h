#pragma once
// Writes a small new file as a whole or not at all, and makes directories whose names are on the
// disk.
#include <filesystem>
#include <functional>

#include "store/checkpoint/file_system.h"

namespace es::store {

// Calls `write` with a file under another name, forces it to the disk, gives it its name, and
// forces that to the disk too. If a step fails, no file is left. Errors: refused (the file exists,
// or the other name does), failure (disk), those of `write`.
Status write_new_file(FileSystem& files, const std::filesystem::path& file,
                      const std::function<Status(WritableFile&)>& write);

// Creates the directory and the missing ones above it. Their names are on the disk when the call
// returns, so that what is forced to the disk in them later can be found after a power cut. It is
// no error if the directory exists.
Status make_directories(FileSystem& files, const std::filesystem::path& directory);

}  // namespace es::store
