#include "actors/gateway/host_id.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <random>

namespace es::actors {
namespace {

std::string unique_text() {
  std::random_device random;
  return "unshared-" + std::to_string(random()) + "-" + std::to_string(random());
}

std::string find_host_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat shm {};
  if (boot.empty() || ::stat("/dev/shm", &shm) != 0) return unique_text();
  // A device number belongs to one mounted tmpfs of one kernel; the inode tells apart
  // subdirectories of it that are bound to /dev/shm of different containers.
  return boot + "/" + std::to_string(shm.st_dev) + "/" + std::to_string(shm.st_ino) + "/" +
         std::to_string(::geteuid());
}

}  // namespace

const std::string& host_id() {
  static const std::string id = find_host_id();
  return id;
}

}  // namespace es::actors
