#pragma once
// oneDNN: its convolutions and matrix products as vendor kernels of a CPU, for the levels that
// allow them (gpu/base/vendor_kernels.h).
//
// The order of additions in a kernel is chosen by the library and depends on the processor.
// So its bits belong to one kernel class and one version of the library. The library chooses the
// algorithm from the shape, never by timing, when the kernel is created; `algorithm()` names it and
// checkpoints record it. A kernel always runs on the calling thread, because a library that divides
// sums among threads would make the bits depend on their number.
//
// The layouts are those of gpu/canonical/kernels.h: NHWC, OHWI, fp32.
#include <memory>
#include <string>

#include "gpu/canonical/kernels.h"
#include "proto/base/result.h"

namespace es::gpu {

// One kernel for one shape. Not thread-safe. It owns its scratch memory.
class OnednnKernel {
 public:
  virtual ~OnednnKernel() = default;
  // Returns the algorithm that the library chose, for example "brgconv:avx512_core".
  virtual std::string algorithm() const = 0;
  // Computes out = pass(a, b). Operands of a convolution: forward (x, weights), data gradient (dy,
  // weights), weight gradient (x, dy); of a product: (A, B). `bias` is used by the forward pass
  // only, and is nullptr if the kernel was created without bias. `out` does not overlap an operand.
  // Error (failure): the library has refused the work; the contents of `out` are then undefined.
  virtual Status run(const float* a, const float* b, const float* bias, float* out) = 0;
};

// Creates kernels for one kernel class. Thread-safe.
class OnednnLibrary {
 public:
  virtual ~OnednnLibrary() = default;
  virtual std::string name() const = 0;  // with its version, for example "oneDNN 2.6.3"
  // Error (failure): the library does not support the shape; the text is the library's.
  virtual Result<std::unique_ptr<OnednnKernel>> conv(const ConvShape&, ConvPass,
                                                     bool bias) const = 0;
  // REQUIRES: one stride of each operand is 1.
  virtual Result<std::unique_ptr<OnednnKernel>> gemm(const GemmShape&, bool bias) const = 0;
};

// Returns the library for a class; nullptr for the scalar class and in builds without oneDNN.
// Error (failure): the process has used the library for another class. It can be limited to a class
// only once; that suffices because a worker process serves one device.
Result<const OnednnLibrary*> open_onednn(CpuClass cpu_class);

}  // namespace es::gpu
