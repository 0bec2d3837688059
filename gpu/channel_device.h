#pragma once
// What joins a worker's device to those of others (cuda/channel.h), from the name of its type.
#include <memory>
#include <string>

#include "gpu/cuda/channel.h"
#include "proto/base/device.h"
#include "proto/base/result.h"

namespace es::gpu {

struct ChannelDevice {
  std::unique_ptr<cuda::Device> device;  // for the channels alone, beside the engine's
  std::unique_ptr<cuda::ChannelLibrary> library;
};

// Of device `index` of this type; both are nullptr where nothing joins it: a CPU, a GPU without
// NCCL. `host`: text that is equal for processes of one machine. Error: choose_device's,
// open_gpu's, open_nccl's.
Result<ChannelDevice> open_channel_device(const DeviceType& type, std::uint32_t index,
                                          const std::string& host);

}  // namespace es::gpu
