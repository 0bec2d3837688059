// Creates what an engine runs on: the CPU, a GPU, or host memory in place of a GPU.
#include "gpu/cuda/device_executor.h"
#include "gpu/engine/engine.h"
#include "gpu/graph/executor.h"

namespace es::gpu {
namespace {

Result<OnednnOps> bind_onednn(const Program& program, const EngineOptions& options) {
  // An empty OnednnOps has no kernels, so every operator runs its canonical kernel.
  if (!options.vendor) return OnednnOps();
  const Result<const OnednnLibrary*> library = open_onednn(options.cpu_class);
  if (!library) return library.error();
  if (*library == nullptr) return OnednnOps();
  return OnednnOps(program, **library, options.cpu_class);
}

}  // namespace

Result<std::unique_ptr<StepRunner>> Engine::make_runner(std::vector<Program> programs) {
  if (options_.device == DeviceKind::kCpu) {
    std::vector<CpuProgram> with_kernels;
    for (Program& program : programs) {
      Result<OnednnOps> onednn = bind_onednn(program, options_);
      if (!onednn) return onednn.error();
      with_kernels.push_back({std::move(program), *std::move(onednn)});
    }
    device_type_ = es::device_type(options_.cpu_class);
    return std::unique_ptr<StepRunner>(
        std::make_unique<Executor>(std::move(with_kernels), kernels_, buckets_, parallel_));
  }
  Result<std::unique_ptr<cuda::Device>> device = options_.device == DeviceKind::kGpu
                                                     ? cuda::open_gpu(options_.gpu_index)
                                                     : cuda::open_host_device();
  if (!device) return device.error();
  device_type_ = (*device)->type();
  std::unique_ptr<cuda::DeviceVendorLibrary> vendor;
  // cuBLAS and cuDNN need a GPU. The device `cuda-host` runs canonical kernels at every level.
  if (options_.vendor && options_.device == DeviceKind::kGpu) {
    auto library = cuda::open_vendor_library(
        **device, spec_.tf32 ? cuda::VendorMath::kTf32 : cuda::VendorMath::kFp32);
    if (!library) return library.error();
    vendor = *std::move(library);
  }
  auto runner = cuda::DeviceExecutor::create(std::move(programs), *std::move(device), buckets_,
                                             std::move(vendor), options_.device_sums);
  if (!runner)
    return failure("model " + model_text(spec_.model) + ", batch_size " +
                   std::to_string(spec_.batch_size) + ": " + runner.error().message);
  return std::unique_ptr<StepRunner>(*std::move(runner));
}

}  // namespace es::gpu
