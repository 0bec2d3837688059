#pragma once
// Translates the name of a device type into the options of an engine.
#include "gpu/engine/engine.h"
#include "proto/base/device.h"
#include "proto/base/result.h"

namespace es::gpu {

// Checks that the name has the form of a device type that exists: a CPU class, a GPU
// ("cuda-sm90-h200"), or "cuda-host". Error (usage): the text lists what is allowed.
Status check_device_name(const DeviceType& type);

// Returns the number of GPUs of the type that this process sees.
std::uint32_t count_gpus(const DeviceType& type);
// Returns whether the name has the form of a GPU's type.
bool is_gpu(const DeviceType& type);

// Sets `cpu_class`, `device` and `gpu_index` of `options` for device `index` of this type on this
// machine. For a CPU device, that is its class. For a GPU, it is one of the GPUs of the type; if
// there are more devices than GPUs, the devices take the GPUs in turn. A CUDA device also gets the
// fastest class of the host's processor. Error (usage): as check_device_name(). Error (refused):
// this machine has no such device; the text lists the devices that it has.
Status choose_device(const DeviceType& type, std::uint32_t index, EngineOptions& options);

}  // namespace es::gpu
