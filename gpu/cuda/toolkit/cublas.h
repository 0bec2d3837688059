#pragma once
// Matrix products by cuBLAS: pedantic fp32 or TF32, a fixed workspace, one stream.
#include <memory>

#include "gpu/cuda/vendor.h"

namespace es::gpu::cuda {

class Cublas {
 public:
  virtual ~Cublas() = default;
  virtual std::string name() const = 0;
  // Error (failure): the strides are not those of a matrix as cuBLAS knows it.
  virtual Result<std::unique_ptr<DeviceVendorKernel>> gemm(const MatmulShape& shape) = 0;
};

// nullptr: not installed. Error (failure): cuBLAS does not work here.
Result<std::unique_ptr<Cublas>> open_cublas(Device& device, VendorMath math);

}  // namespace es::gpu::cuda
