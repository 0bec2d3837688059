#pragma once
// Writes a small new file as a whole or not at all.
#include <filesystem>
#include <functional>

#include "store/checkpoint/file_system.h"

namespace es::store {

// Calls `write` with a file under another name, forces it to the disk, and gives it its name. If a
// step fails, no file is left. Errors: refused (the file exists, or the other name does), failure
// (disk), those of `write`.
Status write_new_file(FileSystem& files, const std::filesystem::path& file,
                      const std::function<Status(WritableFile&)>& write);

}  // namespace es::store
