#include "actors/config/default_devices.h"

namespace es::actors {

DeviceSet default_devices() {
  constexpr std::uint32_t kSlots = 8;
  DeviceSet devices;
  for (const CpuClass c : supported_cpu_classes()) devices.add(device_type(c), kSlots);
  return devices;
}

}  // namespace es::actors
