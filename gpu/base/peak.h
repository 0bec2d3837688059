#pragma once
#include "proto/base/device.h"

namespace es::gpu {

// fp32 operations per nanosecond of fused multiply-adds between registers, measured on this
// processor with the vectors of a class; one fused multiply-add is two operations. It takes a few
// milliseconds of one thread. REQUIRES: cpu_supports(cpu_class).
double peak_gflops(CpuClass cpu_class);

}  // namespace es::gpu
