#pragma once
// Exact products (gpu/canonical/exact_math.h) on the device.
#include "gpu/canonical/device_kernels.h"
#include "gpu/cuda/launch.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {

// The route of a product on the device of the calling thread. It decides the speed and no bit.
ExactRoute exact_route(const GemmShape& s);
bool has_exact_route(ExactRoute route);

// As DeviceKernels::exact_gemm. The workspace is enough for every route.
std::size_t exact_workspace_floats(const GemmShape& s, std::int64_t count);
void multiply_exactly(Stream stream, ExactRoute route, const GemmShape& s, std::int64_t count,
                      std::int64_t a_step, std::int64_t b_step, std::int64_t c_step, const float* a,
                      const float* b, const float* bias, float* c, float* ws);

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
