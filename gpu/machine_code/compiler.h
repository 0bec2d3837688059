#pragma once
// The compiler of tile_code.h.
#include "gpu/machine_code/tile_code.h"

namespace es::gpu {

// Returns new machine code, which is never freed; nullptr as for tile_code().
TileCode compile_tile(const ElementCode& code, CpuClass cpu_class);

}  // namespace es::gpu
