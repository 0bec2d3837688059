#pragma once
// The three tables behind kernel_table(), each defined in a file compiled for its class.
#include "gpu/canonical/kernels.h"

namespace es::gpu {

extern const KernelTable kScalarKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;

}  // namespace es::gpu
