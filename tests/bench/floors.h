#pragma once
// What a processor could do at best, measured in the same run as the steps beside which it is
// shown.
#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/device.h"

namespace es::bench {

// A cache, or the memory, of all threads together.
struct MemoryLevel {
  std::string name;     // "L1", "L2", "L3", "memory"
  double bytes = 0;     // What fits into it; of the memory: infinity.
  double gb_per_s = 0;  // Bytes that are read and written by a copy, in 10^9 a second.
};

struct Floor {
  double seconds = 0;
  std::string bound;  // "compute", or the name of a level.
};

class Floors {
 public:
  // Takes about a second. `threads` are those that compute. REQUIRES: cpu_supports(cpu_class).
  Floors(CpuClass cpu_class, std::uint32_t threads);

  // The least time of an operator that computes `flops` and reads or writes each of `bytes` once,
  // in the nearest level that holds them all. A tensor may lie in a nearer one: then the operator
  // takes less time.
  Floor of(double flops, double bytes) const;
  double gflops() const { return gflops_; }
  const std::vector<MemoryLevel>& levels() const { return levels_; }

 private:
  double gflops_ = 0;
  std::vector<MemoryLevel> levels_;
};

}  // namespace es::bench
