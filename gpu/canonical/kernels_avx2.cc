// Compiled with -mavx2 -mfma.
#include "gpu/canonical/tables.h"
#include "gpu/canonical/vec/table.h"

namespace es::gpu {

const KernelTable kAvx2Kernels = vector_kernels(CpuClass::kAvx2);

}  // namespace es::gpu
