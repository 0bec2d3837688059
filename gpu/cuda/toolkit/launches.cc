#include "gpu/cuda/toolkit/launches.h"

#include <cxxabi.h>

#include <cstdlib>
#include <utility>
#include <vector>

namespace es::gpu::cuda {
namespace {

struct KnownKernel {
  const void* function;
  const std::type_info* type;
};

// A variable of a function, because kernels register themselves before main() and in an unknown
// order of files.
std::vector<KnownKernel>& known_kernels() {
  static std::vector<KnownKernel> kernels;
  return kernels;
}

struct FailedLaunch {
  cudaError_t code = cudaSuccess;
  const std::type_info* kernel = nullptr;
};
// A launch reports its error here and not as a result, because kernel functions return nothing. The
// thread that queues work also asks for the error (GpuDevice::check()).
thread_local FailedLaunch first_failed;

LaunchError launch_error(cudaError_t code, const std::type_info& kernel) {
  int status = 0;
  char* const name = abi::__cxa_demangle(kernel.name(), nullptr, nullptr, &status);
  LaunchError error{code, name != nullptr ? name : kernel.name()};
  std::free(name);
  return error;
}

}  // namespace

bool note_kernel(const void* function, const std::type_info& kernel) {
  known_kernels().push_back({function, &kernel});
  return true;
}

void note_failed_launch(cudaError_t code, const std::type_info& kernel) {
  if (first_failed.code == cudaSuccess) first_failed = {code, &kernel};
}

std::optional<LaunchError> take_failed_launch() {
  const FailedLaunch failed = std::exchange(first_failed, {});
  if (failed.code == cudaSuccess) return std::nullopt;
  return launch_error(failed.code, *failed.kernel);
}

std::optional<LaunchError> load_kernels() {
  for (const KnownKernel& kernel : known_kernels()) {
    cudaFuncAttributes attributes{};
    // The purpose of the call is to load the code of the kernel. The attributes are not used.
    const cudaError_t code = cudaFuncGetAttributes(&attributes, kernel.function);
    if (code != cudaSuccess) return launch_error(code, *kernel.type);
  }
  return std::nullopt;
}

}  // namespace es::gpu::cuda
