#include "actors/base/program/default_devices.h"

#include "gpu/cuda/cuda_inventory.h"

namespace es::actors {

DeviceSet default_devices() {
  constexpr std::uint32_t kSlots = 8;
  DeviceSet devices;
  for (const CpuClass c : supported_cpu_classes()) devices.add(device_type(c), kSlots);
  for (const gpu::CudaDevice& gpu : gpu::cuda_inventory().devices) devices.add(gpu.type(), 1);
  return devices;
}

DeviceSet best_devices() {
  DeviceSet devices;
  for (const gpu::CudaDevice& gpu : gpu::cuda_inventory().devices) devices.add(gpu.type(), 1);
  if (devices.empty()) devices.add(device_type(supported_cpu_classes().back()), 1);
  return devices;
}

}  // namespace es::actors
