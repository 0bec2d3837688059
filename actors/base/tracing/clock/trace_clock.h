#pragma once
#include <x86intrin.h>

#include <chrono>

#include "actors/base/tracing/core/tick_times.h"

namespace es::actors::tracing {

// The present time as traces record it: nanoseconds of the monotonic clock of this machine, which
// all of its processes read.
inline Instant trace_now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

// The counter of the processor, which costs less than half of trace_now(). It is read between two
// readings of the clock (TickTimes), so neither its rate nor its begin matters.
inline std::uint64_t trace_ticks() {
  return __rdtsc();
}

}  // namespace es::actors::tracing
