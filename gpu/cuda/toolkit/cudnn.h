#pragma once
// Convolutions by cuDNN, in fp32 or TF32. The deterministic algorithm that the heuristics of cuDNN
// put first is used; nothing is timed.
#include <memory>

#include "gpu/cuda/vendor.h"

namespace es::gpu::cuda {

class Cudnn {
 public:
  virtual ~Cudnn() = default;
  virtual std::string name() const = 0;
  // Error (failure): cuDNN has no deterministic algorithm for the shape.
  virtual Result<std::unique_ptr<DeviceVendorKernel>> conv(const ConvShape& shape,
                                                           ConvPass pass) = 0;
};

// Returns nullptr if cuDNN is not installed. Error (failure): it does not work here.
Result<std::unique_ptr<Cudnn>> open_cudnn(VendorMath math);

}  // namespace es::gpu::cuda
