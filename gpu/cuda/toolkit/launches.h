#pragma once
// The list of the program's kernels and the record of failed launches, by which launch_gpu.h
// reports to a Device.
#include <cuda_runtime_api.h>

#include <optional>
#include <string>
#include <typeinfo>

namespace es::gpu::cuda {

struct LaunchError {
  cudaError_t code;
  std::string kernel;  // type of the kernel, for example "es::gpu::cuda::on_gpu::Mean"
};

// Registers a kernel by its host function, while the program starts. Returns true.
bool note_kernel(const void* function, const std::type_info& kernel);
void note_failed_launch(cudaError_t code, const std::type_info& kernel);

// Returns the first failed launch of the calling thread since the last call.
std::optional<LaunchError> take_failed_launch();

// Loads all kernels into the current device. Otherwise the first launch of each kernel would load
// it. That may wait for everything that runs there, including a transfer that waits for another
// process. Returns nullopt on success.
std::optional<LaunchError> load_kernels();

}  // namespace es::gpu::cuda
