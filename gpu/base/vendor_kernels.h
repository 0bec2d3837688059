#pragma once
// Vendor kernels are kernels of a library of a hardware vendor: oneDNN on CPUs (gpu/onednn), cuBLAS
// and cuDNN on GPUs (gpu/cuda/vendor.h). The library chooses their order of additions.
#include "proto/base/job_spec.h"

namespace es::gpu {

// Returns true for the levels D0 and D1.
constexpr bool allows_vendor(DeterminismLevel level) {
  return level == DeterminismLevel::kD0 || level == DeterminismLevel::kD1;
}

}  // namespace es::gpu
