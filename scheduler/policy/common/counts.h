#pragma once
// Counts of devices by type index (cluster_table.h). Pure functions of values; thread-safe.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace es::scheduler {

using Counts = std::vector<std::uint32_t>;  // one entry for each device type

inline std::uint32_t total(std::span<const std::uint32_t> counts) {
  std::uint32_t sum = 0;
  for (const std::uint32_t c : counts) sum += c;
  return sum;
}

// Whether `a` has at least as many devices of each type as `b`. REQUIRES: equal sizes.
inline bool covers(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b) {
  for (std::size_t t = 0; t < a.size(); ++t)
    if (a[t] < b[t]) return false;
  return true;
}

}  // namespace es::scheduler
