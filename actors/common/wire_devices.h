#pragma once
// Device ids and device sets in messages.
#include "actors/protocol/messages.h"
#include "proto/base/device.h"
#include "proto/messages.h"

namespace es::actors {

void put(wire::Device::Builder b, const DeviceId& device);
DeviceId device_from(wire::Device::Reader r);

using DeviceCountList = capnp::List<wire::DeviceCount>;
void put(DeviceCountList::Builder b, const DeviceSet& set);  // b has set.counts.size() elements
DeviceSet device_set_from(DeviceCountList::Reader r);

// How many devices of each type.
template <class Devices>
DeviceSet count_by_type(const Devices& devices) {
  DeviceSet set;
  for (const DeviceId& device : devices) set.add(device.type, 1);
  return set;
}

}  // namespace es::actors
