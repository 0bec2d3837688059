#include "actors/base/tracing/core/device_lane.h"

namespace es::actors::tracing {

void DeviceLane::record_wait(Instant end) {
  if (end <= wait_->since) return;
  recorder_.add({.kind = SpanKind::kBatchWait,
                 .lane = lane::kDevice,
                 .step = wait_->step,
                 .begin = wait_->since,
                 .duration = end - wait_->since});
}

void DeviceLane::wait_ends(Instant now) {
  if (!wait_) return;
  record_wait(now);
  wait_.reset();
}

void DeviceLane::add(SpanKind kind, Version step, std::uint32_t number, Instant begin,
                     Instant end) {
  if (wait_) {
    record_wait(begin);
    wait_->since = end;
  }
  recorder_.add({.kind = kind,
                 .lane = lane::kDevice,
                 .number = number,
                 .step = step,
                 .begin = begin,
                 .duration = end - begin});
}

}  // namespace es::actors::tracing
