#pragma once
// DeviceLane records what the device thread of a worker does. While the device waits for a
// mini-batch it may do other work, such as the sum of a bucket; the wait is then interrupted, so
// that spans do not overlap.
#include <optional>

#include "actors/base/tracing/core/recorder.h"

namespace es::actors::tracing {

class DeviceLane {
 public:
  // `recorder` must outlive this object.
  explicit DeviceLane(Recorder& recorder) : recorder_(recorder) {}

  void wait_begins(Version step, Instant now) { wait_ = Wait{step, now}; }
  // The wait was in vain or has not begun; what is left of it is not recorded.
  void forget_wait() { wait_.reset(); }
  // The next slice begins.
  void wait_ends(Instant now);
  void add(SpanKind kind, Version step, std::uint32_t number, Instant begin, Instant end);

 private:
  struct Wait {
    Version step = 0;
    Instant since{};
  };
  void record_wait(Instant end);

  Recorder& recorder_;
  std::optional<Wait> wait_;
};

}  // namespace es::actors::tracing
