#pragma once
#include <cstdint>
#include <fstream>

namespace es::test {

// The memory of this process that is in use.
inline std::uint64_t resident_bytes() {
  std::uint64_t pages = 0;
  std::ifstream statm("/proc/self/statm");
  statm >> pages >> pages;
  return pages * 4096;
}

}  // namespace es::test
