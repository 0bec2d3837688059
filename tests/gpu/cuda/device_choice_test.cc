#include "gpu/engine/device_choice.h"

#include <doctest/doctest.h>

#include "gpu/cuda/cuda_inventory.h"

TEST_SUITE("gpu/device_choice") {
  using namespace es;
  using gpu::CudaDevice;

  TEST_CASE("without a GPU or a driver the error says so, otherwise it names what is missing") {
    const std::string insufficient = "CUDA driver version is insufficient for CUDA runtime version";
    CHECK(gpu::why_no_gpu(0, 13000, insufficient) ==
          "there is no GPU, or its driver is not loaded");
    CHECK(gpu::why_no_gpu(12040, 13000, insufficient) ==
          "the driver of the GPU is for CUDA 12.4, and this program needs one for CUDA 13.0 or "
          "newer");
    CHECK(gpu::why_no_gpu(13000, 13000, "no CUDA-capable device is detected") ==
          "no CUDA-capable device is detected");
  }

  TEST_CASE("the type of a GPU consists of its capability and name") {
    CHECK(CudaDevice{"NVIDIA H200", 90, 0}.type().name == "cuda-sm90-h200");
    CHECK(CudaDevice{"Tesla T4", 75, 0}.type().name == "cuda-sm75-tesla-t4");
    CHECK(CudaDevice{"NVIDIA A100-SXM4-80GB", 80, 0}.type().name == "cuda-sm80-a100-sxm4-80gb");
    CHECK(CudaDevice{"NVIDIA RTX 6000 (Ada) ", 89, 0}.type().name == "cuda-sm89-rtx-6000-ada");
  }

  TEST_CASE("the type of a GPU can be used in a placement") {
    const auto set =
        parse_device_set(CudaDevice{"NVIDIA RTX 6000 (Ada)", 89, 0}.type().name + ":2");
    REQUIRE(set.ok());
    CHECK(set->total() == 2);
  }

  TEST_CASE("a name decides on which device an engine runs") {
    gpu::EngineOptions options;
    REQUIRE(gpu::choose_device({"cpu-scalar"}, 0, options).ok());
    CHECK(options.device == gpu::DeviceKind::kCpu);
    CHECK(options.cpu_class == CpuClass::kScalar);
    REQUIRE(gpu::choose_device({"cuda-host"}, 0, options).ok());
    CHECK(options.device == gpu::DeviceKind::kCudaHost);
    CHECK(options.cpu_class == supported_cpu_classes().back());
  }

  TEST_CASE("a GPU that this machine lacks is refused, and an invalid name too") {
    gpu::EngineOptions options;
    const Status absent = gpu::choose_device({"cuda-sm10-abacus"}, 0, options);
    REQUIRE_FALSE(absent.ok());
    CHECK(absent.error().kind == ErrorKind::kRefused);
    CHECK(absent.error().message.find("cuda-sm10-abacus: this machine has no such GPU") !=
          std::string::npos);
    const Status unknown = gpu::choose_device({"tpu-v4"}, 0, options);
    REQUIRE_FALSE(unknown.ok());
    CHECK(unknown.error().kind == ErrorKind::kUsage);
    CHECK(
        unknown.error().message ==
        "unknown device type \"tpu-v4\"; allowed: cpu-scalar, cpu-avx2, cpu-avx512 and GPUs, e.g. "
        "cuda-sm90-h200");
  }
}
