#pragma once
// Time as the pure cores see it: a parameter of each event, which they never read from a clock.
#include <chrono>

namespace es::actors {

// Time since an epoch that the shell chooses once. It never decreases.
using Instant = std::chrono::nanoseconds;

// For output and for the formulas of the scheduler.
inline double in_seconds(Instant duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace es::actors
