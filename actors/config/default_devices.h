#pragma once
// The devices that a node offers when nothing is said.
#include "proto/base/device.h"

namespace es::actors {

// Eight slots of every kernel class that this machine can execute. A CPU device is a slot, not a
// core: more slots than cores share them. And every GPU.
DeviceSet default_devices();

}  // namespace es::actors
