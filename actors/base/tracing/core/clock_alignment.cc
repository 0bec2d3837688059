#include "actors/base/tracing/core/clock_alignment.h"

#include <algorithm>

namespace es::actors::tracing {

void ClockAlignment::add(const ClockExchange& exchange) {
  const Instant low = exchange.answered - exchange.returned;
  const Instant high = exchange.received - exchange.sent;
  if (low > high || exchange.answered < exchange.received || exchange.returned < exchange.sent)
    return;
  const Instant both_low = std::max(low, low_), both_high = std::min(high, high_);
  // If the ranges have nothing in common, the clocks have drifted apart. The newer range counts.
  const bool agrees = any_ && both_low <= both_high;
  low_ = agrees ? both_low : low;
  high_ = agrees ? both_high : high;
  any_ = true;
}

ClockOffset ClockAlignment::offset() const {
  const bool same = same_machine_ && (!any_ || (low_ <= Instant{} && high_ >= Instant{}));
  if (same) return {.same_clock = true};
  return {.same_clock = false,
          .ahead = low_ + (high_ - low_) / 2,
          .error = (high_ - low_ + Instant{1}) / 2};
}

}  // namespace es::actors::tracing
