#pragma once
// Exact products (gpu/canonical/exact_math.h).
#include "gpu/canonical/device_kernels.h"
#include "gpu/cuda/launch.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {

// As DeviceKernels::gemm, for a shape with an arithmetic other than fp32. REQUIRES: count > 0.
std::size_t exact_workspace_floats(const GemmShape& s, std::int64_t count);
void multiply_exactly(Stream stream, const GemmShape& s, std::int64_t count, std::int64_t a_step,
                      std::int64_t b_step, std::int64_t c_step, const float* a, const float* b,
                      const float* bias, float* c, float* ws);

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
