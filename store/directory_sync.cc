#include "store/directory_sync.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "store/system_error.h"

namespace es::store {

Status sync_entries(const std::filesystem::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return system_failure(directory, "be opened", errno);
  // errno is saved before close() may change it.
  const int code = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (code != 0) return system_failure(directory, "be forced to the disk", code);
  return {};
}

std::filesystem::path parent_directory(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace es::store
