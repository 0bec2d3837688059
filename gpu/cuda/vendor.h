#pragma once
// Vendor kernels of a GPU (cuBLAS, cuDNN) for the levels that allow them (D0, D1): what
// gpu/vendor/vendor.h is for CPUs. Algorithms are the library's choice by shape, never by timing;
// arithmetic as VendorMath says.
//
// A library that does not work, or has nothing for a shape, stops no job: it is said, and canonical
// kernels run. All calls are made within Device::call_library().
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/cuda/device.h"
#include "gpu/graph/graph.h"
#include "gpu/vendor/vendor.h"

namespace es::gpu::cuda {

enum class VendorMath {
  kFp32,
  kTf32,  // where the GPU can, factors may be rounded to TF32 (10 bits of fraction); sums are fp32
};

// One kernel for one shape. Pointers are to device memory.
class DeviceVendorKernel {
 public:
  virtual ~DeviceVendorKernel() = default;
  virtual std::string algorithm() const = 0;  // "cudnnConvolutionForward 1", "... tf32"
  virtual std::size_t workspace_bytes() const = 0;
  // Queues out = pass(a, b), operands as in VendorKernel::run, without a bias. `ws`:
  // workspace_bytes(). Error (failure): the library has refused it, or could not queue all of it.
  virtual Status run(Stream stream, const float* a, const float* b, float* out, void* ws) = 0;
};

// Makes kernels for one device, which outlives it.
class DeviceVendorLibrary {
 public:
  virtual ~DeviceVendorLibrary() = default;
  virtual std::string name() const = 0;  // "cuBLAS 13.1.0, cuDNN 9.19.0"
  // The libraries that are installed and do not work here, a line each: "cuDNN: cudnnCreate: ...".
  virtual std::vector<std::string> not_working() const { return {}; }
  // nullptr: there is no library for such an operator. Error (failure): the library has no kernel
  // for this shape, and why.
  virtual Result<std::unique_ptr<DeviceVendorKernel>> conv(const ConvShape& shape,
                                                           ConvPass pass) = 0;
  virtual Result<std::unique_ptr<DeviceVendorKernel>> gemm(const MatmulShape& shape) = 0;
};

// The libraries of a GPU, as far as they are installed; nullptr: none. Error: the device's.
// REQUIRES: a device of open_gpu(), or one whose streams and memory the libraries know (tests).
Result<std::unique_ptr<DeviceVendorLibrary>> open_vendor_library(Device& device, VendorMath math);

}  // namespace es::gpu::cuda
