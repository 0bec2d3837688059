#include "scheduler/model/device_sets.h"

namespace es::scheduler {

DeviceSet sum(const DeviceSet& a, const DeviceSet& b) {
  DeviceSet both = a;
  for (const DeviceCount& c : b.counts) both.add(c.type, c.count);
  return both;
}

DeviceSet beyond(const DeviceSet& a, const DeviceSet& b) {
  DeviceSet rest;
  for (const DeviceCount& c : a.counts) {
    const std::uint32_t covered = b.count_of(c.type);
    if (c.count > covered) rest.add(c.type, c.count - covered);
  }
  return rest;
}

}  // namespace es::scheduler
