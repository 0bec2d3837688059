#pragma once
// ClockAlignment finds out how far the clocks of two processes are apart, by the exchange of
// messages. A request leaves at `sent` and its answer arrives at `returned`, by the own clock; it
// was received and answered at two times of the other clock. So the other clock is ahead by a value
// between answered - returned and received - sent. Every exchange makes this range narrower. The
// clocks are assumed to run equally fast: over ten seconds, two clocks that drift apart by 10 ppm
// differ by a tenth of a millisecond.
#include "actors/base/tracing/core/span.h"

namespace es::actors::tracing {

struct ClockExchange {
  Instant sent{}, received{}, answered{}, returned{};
};

class ClockAlignment {
 public:
  // `same_machine`: both processes should read the same clock. An exchange can contradict it.
  explicit ClockAlignment(bool same_machine) : same_machine_(same_machine) {}

  // An exchange whose times contradict each other is ignored.
  void add(const ClockExchange& exchange);
  // Whether offset() has a meaning: the clock is the same, or there was an exchange.
  bool known() const { return same_machine_ || any_; }
  // The middle of the range, and half of its width as the error.
  ClockOffset offset() const;

 private:
  bool same_machine_;
  bool any_ = false;
  Instant low_{}, high_{};  // the range; after the first exchange
};

}  // namespace es::actors::tracing
