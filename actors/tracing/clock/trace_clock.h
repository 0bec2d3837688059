#pragma once
#include <chrono>

#include "actors/protocol/core/instant.h"

namespace es::actors::tracing {

// The present time as traces record it: nanoseconds of the monotonic clock of this machine, which
// all of its processes read.
inline Instant trace_now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace es::actors::tracing
