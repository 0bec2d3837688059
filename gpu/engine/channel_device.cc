#include "gpu/engine/channel_device.h"

#include "gpu/engine/device_choice.h"

namespace es::gpu {

Result<ChannelDevice> open_channel_device(const DeviceType& type, std::uint32_t index,
                                          const std::string& host) {
  ChannelDevice opened;
  if (type == cuda::kHostStandIn) {
    opened.device = cuda::open_host_device();
    opened.library = cuda::open_host_channels(type.name + ":" + std::to_string(index), host);
  }
  if (!is_gpu(type)) return opened;
  EngineOptions options;
  ES_RETURN_IF_ERROR(choose_device(type, index, options));
  auto device = cuda::open_gpu(options.gpu_index);
  if (!device) return device.error();
  auto nccl = cuda::open_nccl(**device, options.gpu_index);
  if (!nccl) return nccl.error();
  // Without NCCL there is no channel, and both members stay empty.
  if (*nccl == nullptr) return opened;
  opened.device = *std::move(device);
  opened.library = *std::move(nccl);
  return opened;
}

}  // namespace es::gpu
