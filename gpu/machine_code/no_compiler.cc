// Builds without Xbyak, and processors of other architectures.
#include "gpu/machine_code/compiler.h"

namespace es::gpu {

TileCode compile_tile(const ElementCode&, CpuClass) {
  return nullptr;
}

}  // namespace es::gpu
