#pragma once
// DeviceRest: how long a device stays without a process after its worker was taken out because it
// and another could not reach each other. A link that stays cut would cost the job a round every
// few seconds; so each time on the same device the rest is twice as long, until the device has been
// in use for several rests. Pure; not thread-safe.
#include <chrono>
#include <map>
#include <optional>

#include "actors/protocol/instant.h"
#include "actors/protocol/messages.h"

namespace es::actors::intra_job {

inline constexpr Instant kRestShortest = std::chrono::seconds(2);
inline constexpr Instant kRestLongest = std::chrono::minutes(2);
// A device that worked for so many times its last rest begins with the shortest again.
inline constexpr int kRestsForgotten = 8;

class DeviceRest {
 public:
  void taken_out(const DeviceId& device, Instant now);
  bool rests(const DeviceId& device, Instant now) const;
  // When the first of those that rest has rested.
  std::optional<Instant> first_end(Instant now) const;

 private:
  struct Rest {
    Instant end, length;
  };
  std::map<DeviceId, Rest> rests_;
};

}  // namespace es::actors::intra_job
