#pragma once
// The device on which these tests run: host memory (guarded_device.h), or with ES_GPU=INDEX in the
// environment that GPU.
#include <cstdlib>
#include <memory>
#include <string>

#include "gpu/cuda/device.h"
#include "proto/base/check.h"
#include "tests/gpu/cuda/guarded_device.h"

namespace es::test {

inline std::unique_ptr<gpu::cuda::Device> open_test_device() {
  const char* const index = std::getenv("ES_GPU");
  if (index == nullptr) return std::make_unique<GuardedDevice>();
  auto gpu = gpu::cuda::open_gpu(std::atoi(index));
  ES_CHECK_MSG(gpu.ok(), gpu.ok() ? "" : gpu.error().message);
  return *std::move(gpu);
}

// The number of random networks that are compared: ES_NETWORKS, or a small default.
inline int random_networks() {
  const char* const count = std::getenv("ES_NETWORKS");
  return count == nullptr ? 4 : std::atoi(count);
}

}  // namespace es::test
