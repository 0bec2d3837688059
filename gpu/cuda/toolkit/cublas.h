#pragma once
// Matrix products by cuBLAS: pedantic fp32 or TF32, with a fixed workspace and one stream.
#include <memory>

#include "gpu/cuda/vendor.h"

namespace es::gpu::cuda {

class Cublas {
 public:
  virtual ~Cublas() = default;
  virtual std::string name() const = 0;
  // Error (failure): the strides do not describe a matrix that cuBLAS supports.
  virtual Result<std::unique_ptr<DeviceVendorKernel>> gemm(const MatmulShape& shape) = 0;
};

// Returns nullptr if cuBLAS is not installed. Error (failure): it does not work here.
Result<std::unique_ptr<Cublas>> open_cublas(Device& device, VendorMath math);

}  // namespace es::gpu::cuda
