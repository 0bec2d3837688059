#pragma once
// How a policy looks at the jobs of a view. Values; thread-safe.
#include <cstdint>

namespace es::scheduler {

// Both decide the same, and tests compare them.
enum class ScanMode : std::uint8_t {
  kFullScan,  // every decision looks at every job: the definition of the policy
  kIndexed,   // an index from the last decision tells which jobs to look at
};

}  // namespace es::scheduler
