#pragma once
// From the name of a device type to what an engine runs on.
#include "gpu/engine.h"
#include "proto/base/device.h"
#include "proto/base/result.h"

namespace es::gpu {

// Whether the name has the form of a device type that there is somewhere: a CPU class, a GPU
// ("cuda-sm90-h200") or "cuda-host". Error (usage): what is allowed.
Status check_device_name(const DeviceType& type);

// GPUs of the type that this process sees.
std::uint32_t count_gpus(const DeviceType& type);
// A name with the form of a GPU's type.
bool is_gpu(const DeviceType& type);

// Sets cpu_class, device and gpu_index of `options` for device `index` of this type on this
// machine: the CPU class; one of the GPUs of the type, which devices take in turn when there are
// more devices than GPUs; for CUDA devices the host's fastest class too. Error (usage):
// check_device_name's. Error (refused): this machine has no such device; names those that it has.
Status choose_device(const DeviceType& type, std::uint32_t index, EngineOptions& options);

}  // namespace es::gpu
