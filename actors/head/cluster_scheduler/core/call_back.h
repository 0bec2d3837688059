#pragma once
// Which jobs have to leave devices of a type because claims need them. A pure function, part of
// ClusterCore.
//
// Devices are called back from jobs of the lowest priority first and, among these, from the last
// submitted one. The first pass takes only devices beyond the minimum of a job. The second pass
// suspends whole jobs. The third pass takes devices of pinned jobs. A job that may not be suspended
// gives only devices beyond its minimum, and a pinned one none.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/base/device.h"

namespace es::actors {

struct Holder {
  std::int32_t priority = 0;
  std::uint32_t min_devices = 1;  // with fewer it cannot run
  bool suspendable = true;
  bool pinned = false;  // it demands its devices by name
  DeviceSet held;
};

struct CalledBack {
  std::size_t holder;  // index
  DeviceSet devices;
  bool operator==(const CalledBack&) const = default;
};

// `holders`: in submit order. Returns what they give in this order; one may occur again, with more.
// It is less than `count` if they do not have that many to give.
std::vector<CalledBack> call_back(std::vector<Holder> holders, const DeviceType& type,
                                  std::uint32_t count);

}  // namespace es::actors
