#include "actors/base/gateway/core/host_id.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>

namespace es::actors {
namespace {

std::string unique_text() {
  std::random_device random;
  return "unshared-" + std::to_string(random()) + "-" + std::to_string(random());
}

std::string find_host_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  // Segments are opened by process id, so a number must mean the same process for both sides.
  std::error_code error;
  const auto processes = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  if (boot.empty() || error) return unique_text();
  // The user is a part of the id, because processes of different users cannot open each other's
  // segments.
  return boot + "/" + processes.string() + "/" + std::to_string(::geteuid());
}

}  // namespace

const std::string& host_id() {
  static const std::string id = find_host_id();
  return id;
}

}  // namespace es::actors
