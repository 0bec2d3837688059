#pragma once
// The devices that a node offers by default.
#include "proto/base/device.h"

namespace es::actors {

// Returns eight slots of every kernel class that this machine can execute, and every GPU. A CPU
// device is a slot, not a core; more slots than cores share the cores.
DeviceSet default_devices();

// Returns every GPU of this machine; on a machine without a GPU, one device of the fastest kernel
// class.
DeviceSet best_devices();

}  // namespace es::actors
