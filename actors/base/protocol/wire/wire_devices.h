#pragma once
// Conversion of device ids and device sets for messages.
#include "actors/base/protocol/core/messages.h"
#include "proto/base/device.h"
#include "proto/messages.h"

namespace es::actors {

void put(wire::Device::Builder b, const DeviceId& device);
DeviceId device_from(wire::Device::Reader r);

using DeviceCountList = capnp::List<wire::DeviceCount>;
// REQUIRES: b has set.counts.size() elements
void put(DeviceCountList::Builder b, const DeviceSet& set);
DeviceSet device_set_from(DeviceCountList::Reader r);

}  // namespace es::actors
