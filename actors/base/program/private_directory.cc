#include "actors/base/program/private_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace es::actors {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kPrivate = 0700;
constexpr mode_t kOthers = 077;

Error cannot_be_made(const fs::path& directory) {
  return failure("directory " + directory.string() +
                 ": cannot be created: " + std::strerror(errno));
}

// std::filesystem::create_directories is not used, because other users could enter the parents that
// it creates.
Status make_missing(const fs::path& directory) {
  if (directory.empty() || ::mkdir(directory.c_str(), kPrivate) == 0 || errno == EEXIST) return {};
  if (errno != ENOENT || !directory.has_relative_path()) return cannot_be_made(directory);
  ES_RETURN_IF_ERROR(make_missing(directory.parent_path()));
  // Another process may have made it in the meantime.
  return ::mkdir(directory.c_str(), kPrivate) == 0 || errno == EEXIST
             ? Status()
             : Status(cannot_be_made(directory));
}

}  // namespace

Result<bool> make_private_directory(const fs::path& directory) {
  fs::path path = directory.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "state/"
  ES_RETURN_IF_ERROR(make_missing(path));
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return cannot_be_made(path);
  if (!S_ISDIR(info.st_mode))
    return failure("directory " + path.string() +
                   ": a file of another kind has this name; allowed is a directory");
  if ((info.st_mode & 07777) == kPrivate && info.st_uid == ::geteuid()) return false;
  // A directory with the sticky bit, such as /tmp, is shared on purpose. To make it private would
  // harm its other users.
  if (info.st_uid != ::geteuid() || (info.st_mode & S_ISVTX) != 0)
    return refused("directory " + path.string() +
                   ": other users may access it or own it; allowed is a directory of this user "
                   "with mode 0700");
  if (::chmod(path.c_str(), kPrivate) != 0) return cannot_be_made(path);
  return (info.st_mode & kOthers) != 0;
}

Result<fs::path> make_temporary_directory() {
  constexpr std::size_t kBaseBytesMax = 60;
  const char* wanted = std::getenv("TMPDIR");
  const bool usable = wanted != nullptr && wanted[0] == '/' && std::strlen(wanted) <= kBaseBytesMax;
  std::string path = std::string(usable ? wanted : "/tmp") + "/esctl-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr)
    return failure("temporary directory " + path + ": cannot be created: " + std::strerror(errno) +
                   "; the environment variable TMPDIR may name another place");
  return fs::path(path);
}

}  // namespace es::actors
