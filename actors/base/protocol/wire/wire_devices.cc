#include "actors/base/protocol/wire/wire_devices.h"

namespace es::actors {

void put(wire::Device::Builder b, const DeviceId& device) {
  b.setNode(device.node);
  b.setType(device.type.name);
  b.setIndex(device.index);
}

DeviceId device_from(wire::Device::Reader r) {
  return {r.getNode().cStr(), {r.getType().cStr()}, r.getIndex()};
}

void put(DeviceCountList::Builder b, const DeviceSet& set) {
  for (unsigned i = 0; i < b.size(); ++i) {
    b[i].setType(set.counts[i].type.name);
    b[i].setCount(set.counts[i].count);
  }
}

DeviceSet device_set_from(DeviceCountList::Reader r) {
  DeviceSet set;
  for (const auto count : r) set.add({count.getType().cStr()}, count.getCount());
  return set;
}

}  // namespace es::actors
