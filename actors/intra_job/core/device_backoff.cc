#include "actors/intra_job/core/device_backoff.h"

#include <algorithm>

namespace es::actors::intra_job {

void DeviceBackoff::evicted(const DeviceId& device, Instant now) {
  const auto [at, first] = backoffs_.try_emplace(device, Backoff{now, kBackoffShortest});
  Backoff& backoff = at->second;
  if (!first) {
    // The time is counted from the end of the last wait, when the device could be used again.
    const bool forgotten = now - backoff.end > kBackoffsForgotten * backoff.length;
    backoff.length = forgotten ? kBackoffShortest : std::min(2 * backoff.length, kBackoffLongest);
  }
  backoff.end = now + backoff.length;
}

bool DeviceBackoff::waits(const DeviceId& device, Instant now) const {
  const auto found = backoffs_.find(device);
  return found != backoffs_.end() && now < found->second.end;
}

std::optional<Instant> DeviceBackoff::first_end(Instant now) const {
  std::optional<Instant> first;
  for (const auto& [device, backoff] : backoffs_)
    if (now < backoff.end) first = std::min(first.value_or(backoff.end), backoff.end);
  return first;
}

}  // namespace es::actors::intra_job
