#pragma once
// The devices that a node offers by default.
#include "proto/base/device.h"

namespace es::actors {

// Returns eight slots of every kernel class that this machine can execute, and every GPU. A CPU
// device is a slot, not a core; more slots than cores share the cores.
DeviceSet default_devices();

}  // namespace es::actors
