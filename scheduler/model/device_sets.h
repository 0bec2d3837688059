#pragma once
// Arithmetic on DeviceSet for schedulers. Pure functions of values; thread-safe.
#include "proto/base/device.h"

namespace es::scheduler {

// The devices of both, type by type.
DeviceSet sum(const DeviceSet& a, const DeviceSet& b);

// The devices of `a` that exceed `b`, type by type: max(a - b, 0).
DeviceSet beyond(const DeviceSet& a, const DeviceSet& b);

}  // namespace es::scheduler
