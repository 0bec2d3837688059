#pragma once
// Conversion of device ids and device sets for messages.
#include "actors/protocol/core/messages.h"
#include "proto/base/device.h"
#include "proto/messages.h"

namespace es::actors {

void put(wire::Device::Builder b, const DeviceId& device);
DeviceId device_from(wire::Device::Reader r);

using DeviceCountList = capnp::List<wire::DeviceCount>;
// REQUIRES: b has set.counts.size() elements
void put(DeviceCountList::Builder b, const DeviceSet& set);
DeviceSet device_set_from(DeviceCountList::Reader r);

// Counts the devices of each type.
template <class Devices>
DeviceSet count_by_type(const Devices& devices) {
  DeviceSet set;
  for (const DeviceId& device : devices) set.add(device.type, 1);
  return set;
}

}  // namespace es::actors
