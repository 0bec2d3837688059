#pragma once
// DeviceBackoff decides how long a device stays without a process after its worker was evicted
// because it and another worker could not reach each other. A link that stays cut would cost the
// job a round every few seconds. Therefore each further wait of the same device is twice as long,
// until the device has been in use for several times its last wait. Pure; not thread-safe.
#include <chrono>
#include <map>
#include <optional>

#include "actors/protocol/core/instant.h"
#include "actors/protocol/core/messages.h"

namespace es::actors::intra_job {

inline constexpr Instant kBackoffShortest = std::chrono::seconds(2);
inline constexpr Instant kBackoffLongest = std::chrono::minutes(2);
// A device that was in use for this multiple of its last wait begins with the shortest wait again.
inline constexpr int kBackoffsForgotten = 8;

class DeviceBackoff {
 public:
  void evicted(const DeviceId& device, Instant now);
  bool waits(const DeviceId& device, Instant now) const;
  // Returns the end of the first wait that is running; nullopt: no device waits.
  std::optional<Instant> first_end(Instant now) const;

 private:
  struct Backoff {
    Instant end, length;
  };
  std::map<DeviceId, Backoff> backoffs_;
};

}  // namespace es::actors::intra_job
