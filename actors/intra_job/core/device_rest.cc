#include "actors/intra_job/core/device_rest.h"

#include <algorithm>

namespace es::actors::intra_job {

void DeviceRest::taken_out(const DeviceId& device, Instant now) {
  const auto [at, first] = rests_.try_emplace(device, Rest{now, kRestShortest});
  Rest& rest = at->second;
  if (!first) {
    const bool forgotten = now - rest.end > kRestsForgotten * rest.length;
    rest.length = forgotten ? kRestShortest : std::min(2 * rest.length, kRestLongest);
  }
  rest.end = now + rest.length;
}

bool DeviceRest::rests(const DeviceId& device, Instant now) const {
  const auto found = rests_.find(device);
  return found != rests_.end() && now < found->second.end;
}

std::optional<Instant> DeviceRest::first_end(Instant now) const {
  std::optional<Instant> first;
  for (const auto& [device, rest] : rests_)
    if (now < rest.end) first = std::min(first.value_or(rest.end), rest.end);
  return first;
}

}  // namespace es::actors::intra_job
