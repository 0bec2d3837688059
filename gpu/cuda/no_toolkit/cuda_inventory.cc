#include "gpu/cuda/cuda_inventory.h"

namespace es::gpu {

CudaInventory cuda_inventory() {
  return {{}, "built without the CUDA toolkit"};
}

}  // namespace es::gpu
