#pragma once
// Which operators a vendor kernel runs at the levels that allow it: those that it does faster than
// the canonical kernel of the class, for at least 10 % of the time, by `scripts/bench kernels`.
// Rules over shapes, measured once and written down: a choice by timing at run time would not be
// repeatable.
#include "gpu/vendor/vendor.h"

namespace es::gpu {

bool vendor_preferred(CpuClass cpu_class, const ConvShape& shape, ConvPass pass);
bool vendor_preferred(CpuClass cpu_class, const GemmShape& shape);

}  // namespace es::gpu
