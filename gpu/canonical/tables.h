#pragma once
// The three tables behind kernel_table(). Each is defined in a file that is compiled for its class.
#include "gpu/canonical/kernels.h"

namespace es::gpu {

extern const KernelTable kScalarKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;

}  // namespace es::gpu
