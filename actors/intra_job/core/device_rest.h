#pragma once
// DeviceRest decides how long a device stays without a process after its worker was evicted because
// it and another worker could not reach each other. A link that stays cut would cost the job a
// round every few seconds. Therefore each further rest of the same device is twice as long, until
// the device has been in use for several times its last rest. Pure; not thread-safe.
#include <chrono>
#include <map>
#include <optional>

#include "actors/protocol/core/instant.h"
#include "actors/protocol/core/messages.h"

namespace es::actors::intra_job {

inline constexpr Instant kRestShortest = std::chrono::seconds(2);
inline constexpr Instant kRestLongest = std::chrono::minutes(2);
// A device that worked for this multiple of its last rest begins with the shortest rest again.
inline constexpr int kRestsForgotten = 8;

class DeviceRest {
 public:
  void taken_out(const DeviceId& device, Instant now);
  bool rests(const DeviceId& device, Instant now) const;
  // Returns the end of the first rest that is running; nullopt: no device rests.
  std::optional<Instant> first_end(Instant now) const;

 private:
  struct Rest {
    Instant end, length;
  };
  std::map<DeviceId, Rest> rests_;
};

}  // namespace es::actors::intra_job
