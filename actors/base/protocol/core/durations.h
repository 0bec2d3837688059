#pragma once
// Durations in seconds, for output and for the scheduler's formulas.
#include "actors/base/protocol/core/instant.h"

namespace es::actors {

inline double in_seconds(Instant duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace es::actors
