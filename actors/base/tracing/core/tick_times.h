#pragma once
// TickTimes turns readings of a counter that runs at a constant rate into times. A reading of such
// a counter costs less than one of the clock, so what happens between two readings of the clock can
// be measured with the counter alone.
#include <cstdint>

#include "actors/base/protocol/core/instant.h"

namespace es::actors::tracing {

// The clock and the counter, read one after the other.
struct ClockReading {
  Instant time{};
  std::uint64_t ticks = 0;
};

class TickTimes {
 public:
  // Two readings on one thread, in their order.
  TickTimes(const ClockReading& begin, const ClockReading& end);

  // Returns the time of a reading between the two, by their straight line. It is never outside of
  // them, and a later reading has no earlier time.
  Instant at(std::uint64_t ticks) const;

 private:
  ClockReading begin_, end_;
  double per_tick_;  // nanoseconds
};

}  // namespace es::actors::tracing
