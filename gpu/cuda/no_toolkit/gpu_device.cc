#include "gpu/cuda/device.h"

namespace es::gpu::cuda {

Result<std::unique_ptr<Device>> open_gpu(int index) {
  return failure("GPU " + std::to_string(index) + ": built without the CUDA toolkit");
}

}  // namespace es::gpu::cuda
