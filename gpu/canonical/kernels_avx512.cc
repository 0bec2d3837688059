// Compiled with -mavx512{f,vl,dq,bw}.
#include "gpu/canonical/tables.h"
#include "gpu/canonical/vec/table.h"

namespace es::gpu {

const KernelTable kAvx512Kernels = vector_kernels(CpuClass::kAvx512);

}  // namespace es::gpu
