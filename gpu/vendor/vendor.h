#pragma once
// Vendor kernels: a library's convolutions and matrix products, for the levels that allow them (D0,
// D1).
//
// A vendor kernel's order of additions is the library's own and depends on the processor, so its
// bits are those of one kernel class and one library version only. The algorithm is chosen by the
// library from the shape, never by timing, when the kernel is made; `algorithm()` names it and is
// recorded. It always runs on the calling thread: a library that divides sums among threads would
// let the bits depend on their number.
//
// Layouts as in gpu/canonical/kernels.h: NHWC, OHWI, fp32.
#include <memory>
#include <string>

#include "gpu/canonical/kernels.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::gpu {

// Levels D0 and D1.
constexpr bool allows_vendor(DeterminismLevel level) {
  return level == DeterminismLevel::kD0 || level == DeterminismLevel::kD1;
}

enum class ConvPass { kForward, kDataGradient, kWeightGradient };

// One kernel for one shape. Not thread-safe. Owns its scratch.
class VendorKernel {
 public:
  virtual ~VendorKernel() = default;
  // What the library chose: "brgconv:avx512_core".
  virtual std::string algorithm() const = 0;
  // out = pass(a, b). Convolution: forward (x, weights), data gradient (dy, weights), weight
  // gradient (x, dy). Product: (A, B). bias: forward only, nullptr when the kernel was made
  // without. No alias between out and operands. Error (failure): the library has refused it; `out`
  // means nothing.
  virtual Status run(const float* a, const float* b, const float* bias, float* out) = 0;
};

// Makes kernels for one kernel class. Thread-safe.
class VendorLibrary {
 public:
  virtual ~VendorLibrary() = default;
  virtual std::string name() const = 0;  // with its version, "oneDNN 2.6.3"
  // Error (failure): the library has nothing for the shape, in its words.
  virtual Result<std::unique_ptr<VendorKernel>> conv(const ConvShape&, ConvPass,
                                                     bool bias) const = 0;
  // REQUIRES: one stride of each operand is 1.
  virtual Result<std::unique_ptr<VendorKernel>> gemm(const GemmShape&, bool bias) const = 0;
};

// The library for a class; nullptr for the scalar class and in builds without a library.
// Error (failure): the process has used the library for another class; it can be limited to a class
// only once (a worker process serves one device).
Result<const VendorLibrary*> vendor_library(CpuClass cpu_class);

}  // namespace es::gpu
