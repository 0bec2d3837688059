#pragma once
// The kernels of this program, and launches that failed: what launch_gpu.h tells a Device.
#include <cuda_runtime_api.h>

#include <optional>
#include <string>
#include <typeinfo>

namespace es::gpu::cuda {

struct LaunchError {
  cudaError_t code;
  std::string kernel;  // its type, "es::gpu::cuda::on_gpu::Mean"
};

// A kernel by its host function; while the program starts. Returns true.
bool note_kernel(const void* function, const std::type_info& kernel);
void note_failed_launch(cudaError_t code, const std::type_info& kernel);

// The calling thread's first failed launch since it was asked.
std::optional<LaunchError> take_failed_launch();

// Loads all kernels into the current device. Otherwise each is loaded by its first launch, which
// may wait for everything that runs there, a transfer that waits for another process included.
// nullopt: done.
std::optional<LaunchError> load_kernels();

}  // namespace es::gpu::cuda
