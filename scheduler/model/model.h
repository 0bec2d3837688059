#pragma once
// The throughput model of a plan: it predicts how fast a job trains on given devices.
// docs/SCHEDULING.md explains it with an example.
//
// For device types i with N_i devices, A_i ESTs on each of them, and C_i local steps per second:
//
//   nEST       = sum_i N_i * A_i                  >= max_p
//   f          = max over used types of A_i / C_i            seconds per global step
//              + sync(sum_i N_i)                             communication (sync.h), if measured
//   waste      = sum_i N_i * (C_i - A_i / f)                 speed of devices that wait, also for
//                                                            communication
//              + (nEST - max_p) / f                          and speed of places without an EST
//   throughput = sum_i N_i * C_i - waste = max_p / f         local steps per second
//
// Every term has the factor N_i; only then the identity in the last line holds. Pure functions of
// values; thread-safe.
#include <cstdint>
#include <map>
#include <vector>

#include "proto/base/device.h"
#include "scheduler/model/sync.h"

namespace es::scheduler {

// C_i: local steps per second of one device of a type, measured or assumed. Finite, > 0.
using Capabilities = std::map<DeviceType, double>;

struct PlanPart {
  DeviceType type;
  std::uint32_t devices = 0;          // N_i, >= 1
  std::uint32_t ests_per_device = 0;  // A_i, >= 1; an upper bound if nEST > max_p
  bool operator==(const PlanPart&) const = default;
};

// The number of devices of each type, and the number of ESTs on each of them. A placement
// (placement.h) says which device runs which ranks.
struct Plan {
  std::vector<PlanPart> parts;  // ascending type names, each type once, not empty
  DeviceSet devices() const;
  bool operator==(const Plan&) const = default;
};

struct Estimate {
  std::uint32_t nest = 0;         // EST places of the plan, >= max_p
  double f_seconds_per_step = 0;  // seconds of one global step
  double waste = 0;               // unused local steps per second of the devices, >= 0
  double throughput = 0;          // local steps per second
  bool operator==(const Estimate&) const = default;
};

// REQUIRES: max_p > 0, the plan has at least max_p places, and each of its types has a capability.
Estimate estimate(const Plan& plan, const Capabilities& capabilities, std::uint32_t max_p,
                  const SyncCurve& sync = {});

// The most ESTs that a device of this capability runs within this time: the largest A with A /
// capability <= seconds, where the quotient is rounded as everywhere in the scheduler. So the
// result for seconds = A / capability is A itself. REQUIRES: seconds >= 0, capability > 0, the
// result is below 2^31.
std::uint32_t ests_within(double seconds, double capability);

}  // namespace es::scheduler
