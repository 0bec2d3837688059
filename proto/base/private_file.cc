#include "proto/base/private_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace es {
namespace {

constexpr mode_t kOthersRead = 077;
constexpr mode_t kOthersWrite = 022;
constexpr mode_t kGroupReads = 040;

// `allowed` says which mode has none of the bits `wrong`.
Status check_mode(const std::filesystem::path& file, const std::string& what, mode_t wrong,
                  const std::string& allowed) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0)
    return not_found(what + " " + file.string() + ": " + std::strerror(errno));
  // Kubernetes hands a secret to a process without rights as a file of the superuser, whose group,
  // that of the pod alone, may read it.
  if (info.st_uid == 0 && ::geteuid() != 0) wrong &= ~kGroupReads;
  if ((info.st_mode & wrong) == 0) return {};
  return refused(what + " " + file.string() + ": other users may " + allowed);
}

}  // namespace

Status check_private_file(const std::filesystem::path& file, const std::string& what) {
  return check_mode(file, what, kOthersRead, "read it; set mode 0600");
}

Status check_own_file(const std::filesystem::path& file, const std::string& what) {
  return check_mode(file, what, kOthersWrite, "change it; remove their right to write");
}

}  // namespace es
