#include "gpu/canonical/kernels.h"
#include "gpu/canonical/tables.h"
#include "proto/base/check.h"

namespace es::gpu {

const KernelTable& kernel_table(CpuClass cpu_class) {
  // A kernel of a class that the processor lacks would end the process by an illegal instruction.
  ES_CHECK(cpu_supports(cpu_class));
  switch (cpu_class) {
    case CpuClass::kScalar:
      return kScalarKernels;
    case CpuClass::kAvx2:
      return kAvx2Kernels;
    case CpuClass::kAvx512:
      return kAvx512Kernels;
  }
  check_failed(__FILE__, __LINE__, "a known kernel class", {});
}

}  // namespace es::gpu
