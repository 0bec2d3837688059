#pragma once
// Says which operators a kernel of oneDNN runs at the levels that allow it: those for which
// `scripts/bench kernels` measured that it needs at least 10 % less time than the canonical kernel
// of the class. These are rules over shapes that were written down after one measurement, because a
// choice by timing at run time would not be repeatable.
#include "gpu/onednn/onednn.h"

namespace es::gpu {

bool onednn_preferred(CpuClass cpu_class, const ConvShape& shape, ConvPass pass);
bool onednn_preferred(CpuClass cpu_class, const GemmShape& shape);

}  // namespace es::gpu
