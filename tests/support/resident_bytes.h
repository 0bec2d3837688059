#pragma once
#include <cstdint>
#include <fstream>
#include <string>

namespace es::test {

// The memory of this process that is in use.
inline std::uint64_t resident_bytes() {
  std::uint64_t pages = 0;
  std::ifstream statm("/proc/self/statm");
  statm >> pages >> pages;
  return pages * 4096;
}

// Private writable memory of this process, which is what RLIMIT_DATA limits, in bytes.
inline std::int64_t private_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmData:")) return std::stoll(line.substr(7)) * 1024;
  return -1;
}

}  // namespace es::test
