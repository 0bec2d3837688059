#include "gpu/engine/device_choice.h"

#include <algorithm>
#include <vector>

#include "gpu/cuda/cuda_inventory.h"
#include "gpu/cuda/device.h"

namespace es::gpu {
namespace {

Status choose_gpu(const DeviceType& type, std::uint32_t index, EngineOptions& options) {
  const CudaInventory inventory = cuda_inventory();
  std::vector<int> gpus;
  std::string seen;
  for (std::size_t i = 0; i < inventory.devices.size(); ++i) {
    const DeviceType found = inventory.devices[i].type();
    if (found == type) gpus.push_back(static_cast<int>(i));
    seen += (i == 0 ? "" : ", ") + found.name;
  }
  if (!gpus.empty()) {
    // Several workers may share one GPU, so the number of a device may be larger than the number of
    // GPUs.
    options.gpu_index = gpus[index % gpus.size()];
    return {};
  }
  return refused("device type " + type.name + ": this machine has no such GPU; it has " +
                 (seen.empty() ? "none: " + inventory.why_none : seen));
}

}  // namespace

bool is_gpu(const DeviceType& type) {
  return type.name.starts_with("cuda-sm");
}

std::uint32_t count_gpus(const DeviceType& type) {
  const CudaInventory inventory = cuda_inventory();
  return static_cast<std::uint32_t>(
      std::count_if(inventory.devices.begin(), inventory.devices.end(),
                    [&](const CudaDevice& device) { return device.type() == type; }));
}

Status check_device_name(const DeviceType& type) {
  if (type == cuda::kHostStandIn || is_gpu(type)) return {};
  const auto cpu_class = parse_cpu_class(type.name);
  return cpu_class ? Status()
                   : usage_error(cpu_class.error().message + " and GPUs, e.g. cuda-sm90-h200");
}

Status choose_device(const DeviceType& type, std::uint32_t index, EngineOptions& options) {
  ES_RETURN_IF_ERROR(check_device_name(type));
  if (const auto cpu_class = parse_cpu_class(type.name)) {
    options.device = DeviceKind::kCpu;
    options.cpu_class = *cpu_class;
    if (cpu_supports(*cpu_class)) return {};
    return refused("this processor cannot execute " + type.name);
  }
  // The host computes what the device has no room for. Every class gives the same bits there, so
  // the widest class is chosen for its speed.
  options.cpu_class = supported_cpu_classes().back();
  options.device = is_gpu(type) ? DeviceKind::kGpu : DeviceKind::kCudaHost;
  return is_gpu(type) ? choose_gpu(type, index, options) : Status();
}

}  // namespace es::gpu
