#pragma once
// Opens what connects a worker's device with the devices of other workers (cuda/channel.h), given
// the name of its device type.
#include <memory>
#include <string>

#include "gpu/cuda/channel.h"
#include "proto/base/device.h"
#include "proto/base/result.h"

namespace es::gpu {

struct ChannelDevice {
  std::unique_ptr<cuda::Device> device;  // used by the channels only; the engine opens its own
  std::unique_ptr<cuda::ChannelLibrary> library;
};

// Opens the channels of device `index` of this type. Both members are nullptr if the device has no
// channels: a CPU, or a GPU without NCCL. `host` is a text that is equal for all processes of one
// machine. Errors: those of choose_device(), open_gpu() and open_nccl().
Result<ChannelDevice> open_channel_device(const DeviceType& type, std::uint32_t index,
                                          const std::string& host);

}  // namespace es::gpu
