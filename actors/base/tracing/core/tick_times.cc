#include "actors/base/tracing/core/tick_times.h"

#include <algorithm>

namespace es::actors::tracing {

TickTimes::TickTimes(const ClockReading& begin, const ClockReading& end)
    : begin_(begin),
      end_(end),
      per_tick_(end.ticks > begin.ticks ? static_cast<double>((end.time - begin.time).count()) /
                                              static_cast<double>(end.ticks - begin.ticks)
                                        : 0) {}

Instant TickTimes::at(std::uint64_t ticks) const {
  if (ticks <= begin_.ticks) return begin_.time;
  const Instant since(
      static_cast<std::int64_t>(static_cast<double>(ticks - begin_.ticks) * per_tick_));
  return std::min(begin_.time + since, end_.time);
}

}  // namespace es::actors::tracing
