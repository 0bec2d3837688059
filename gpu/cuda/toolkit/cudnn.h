#pragma once
// Convolutions by cuDNN: deterministic algorithms, fp32 or TF32, that its heuristics put first,
// without timing.
#include <memory>

#include "gpu/cuda/vendor.h"

namespace es::gpu::cuda {

class Cudnn {
 public:
  virtual ~Cudnn() = default;
  virtual std::string name() const = 0;
  // Error (failure): cuDNN has no deterministic algorithm for it.
  virtual Result<std::unique_ptr<DeviceVendorKernel>> conv(const ConvShape& shape,
                                                           ConvPass pass) = 0;
};

// nullptr: not installed. Error (failure): cuDNN does not work here.
Result<std::unique_ptr<Cudnn>> open_cudnn(VendorMath math);

}  // namespace es::gpu::cuda
