#pragma once
// Depthwise convolution, which has an order of its own (docs/reference/operators.md). conv.cu uses
// it.
#include <cstddef>

#include "gpu/canonical/kernels.h"
#include "gpu/cuda/launch.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {

// The workspace of depthwise_fwd and depthwise_dgrad: the weights in another order.
std::size_t depthwise_weights_floats(const ConvShape& s);
void depthwise_fwd(Stream stream, const ConvShape& s, const float* x, const float* w,
                   const float* bias, float* y, float* ws);
void depthwise_dgrad(Stream stream, const ConvShape& s, const float* dy, const float* w, float* dx,
                     float* ws);
std::size_t depthwise_wgrad_workspace_floats(const ConvShape& s);
void depthwise_wgrad(Stream stream, const ConvShape& s, const float* x, const float* dy, float* dw,
                     float* ws);

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
