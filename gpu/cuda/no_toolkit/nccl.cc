#include "gpu/cuda/channel.h"

namespace es::gpu::cuda {

Result<std::unique_ptr<ChannelLibrary>> open_nccl(Device&, int) {
  return std::unique_ptr<ChannelLibrary>();
}

}  // namespace es::gpu::cuda
