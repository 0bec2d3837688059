#include <cctype>

#include "gpu/cuda/cuda_inventory.h"

namespace es::gpu {
namespace {

std::string version_text(int version) {
  // CUDA writes version 12.4 as 12040.
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

std::string why_no_gpu(int driver_version, int needed_version, const std::string& error) {
  if (driver_version == 0) return "there is no GPU, or its driver is not loaded";
  if (driver_version < needed_version)
    return "the driver of the GPU is for CUDA " + version_text(driver_version) +
           ", and this program needs one for CUDA " + version_text(needed_version) + " or newer";
  return error;
}

DeviceType CudaDevice::type() const {
  const std::string maker = "NVIDIA ";
  // The capability and the name together make the type, for example "cuda-sm90-h200". Cards of one
  // type are expected to give the same bits at D1.
  std::string type = "cuda-sm" + std::to_string(compute_capability);
  bool dash = true;  // insert a dash before the next letter or digit
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
