#pragma once
// Arithmetic on DeviceSet that schedulers need. Values in, values out; thread-safe.
#include "proto/base/device.h"

namespace es::scheduler {

// Devices of both, type by type.
DeviceSet sum(const DeviceSet& a, const DeviceSet& b);

// What `a` has beyond `b`, type by type: max(a - b, 0).
DeviceSet beyond(const DeviceSet& a, const DeviceSet& b);

}  // namespace es::scheduler
