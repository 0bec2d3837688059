#pragma once
// Time for people and for the scheduler's formulas, which count in seconds.
#include "actors/protocol/instant.h"

namespace es::actors {

inline double in_seconds(Instant duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace es::actors
