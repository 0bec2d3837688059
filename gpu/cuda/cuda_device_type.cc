#include <cctype>

#include "gpu/cuda_inventory.h"

namespace es::gpu {

DeviceType CudaDevice::type() const {
  const std::string maker = "NVIDIA ";
  std::string type = "cuda-sm" + std::to_string(compute_capability);
  bool dash = true;  // before the next letter
  for (const char c : name.starts_with(maker) ? name.substr(maker.size()) : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
      dash = true;
      continue;
    }
    if (dash) type += '-';
    dash = false;
    type += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return {type};
}

}  // namespace es::gpu
