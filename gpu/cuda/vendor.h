#pragma once
// Vendor kernels of a GPU (cuBLAS, cuDNN) for the levels that allow them (D0 and D1), as
// gpu/onednn/onednn.h is for CPUs. The library chooses algorithms by shape, never by timing.
// VendorMath chooses the arithmetic.
//
// A library that does not work, or has no kernel for a shape, does not stop a job: canonical
// kernels run, and the reason is reported. All calls are made through Device::call_library().
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/cuda/device.h"
#include "gpu/graph/graph.h"

namespace es::gpu::cuda {

enum class VendorMath {
  kFp32,
  // Where the GPU supports it, factors may be rounded to TF32 (10 bits of fraction); sums are fp32.
  kTf32,
};

// One kernel for one shape. Pointers are to device memory.
class DeviceVendorKernel {
 public:
  virtual ~DeviceVendorKernel() = default;
  // For example "cudnnConvolutionForward 1"; ends in "tf32" if it uses TF32.
  virtual std::string algorithm() const = 0;
  virtual std::size_t workspace_bytes() const = 0;
  // Queues out = pass(a, b) without a bias; the operands are those of DenseCall
  // (gpu/graph/ops/operator.h). `ws` has workspace_bytes() bytes. Error (failure): the library has
  // refused the work, or could not queue all of it.
  virtual Status run(Stream stream, const float* a, const float* b, float* out, void* ws) = 0;
};

// Creates kernels for one device. The device must outlive the library.
class DeviceVendorLibrary {
 public:
  virtual ~DeviceVendorLibrary() = default;
  virtual std::string name() const = 0;  // for example "cuBLAS 13.1.0, cuDNN 9.19.0"
  // Returns a line for each library that is installed and does not work: "cuDNN does not work here:
  // cudnnCreate: ...".
  virtual std::vector<std::string> not_working() const { return {}; }
  // Both functions return nullptr if there is no library for such an operator. Error (failure): the
  // library has no kernel for this shape; the text says why.
  virtual Result<std::unique_ptr<DeviceVendorKernel>> conv(const ConvShape& shape,
                                                           ConvPass pass) = 0;
  virtual Result<std::unique_ptr<DeviceVendorKernel>> gemm(const MatmulShape& shape) = 0;
};

// Opens the libraries of a GPU that are installed; nullptr: none is. Error: the device's error.
// REQUIRES: a device of open_gpu(), or one whose streams and memory the libraries know (tests).
Result<std::unique_ptr<DeviceVendorLibrary>> open_vendor_library(Device& device, VendorMath math);

}  // namespace es::gpu::cuda
