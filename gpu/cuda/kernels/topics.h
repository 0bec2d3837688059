#pragma once
// The kernel sources. Each has one function, which fills in the kernels of its file. Both copies of
// the sources (launch.h) have all of them.
#include "gpu/canonical/device_kernels.h"
#include "gpu/cuda/launch.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {

void add_gemm(DeviceKernels& kernels);
void add_conv(DeviceKernels& kernels);
void add_attention(DeviceKernels& kernels);
void add_elementwise(DeviceKernels& kernels);
void add_program(DeviceKernels& kernels);
void add_fold(DeviceKernels& kernels);
void add_norm(DeviceKernels& kernels);
void add_layer_norm(DeviceKernels& kernels);
void add_softmax(DeviceKernels& kernels);
void add_pool(DeviceKernels& kernels);
void add_embedding(DeviceKernels& kernels);
void add_loss(DeviceKernels& kernels);
void add_yolo(DeviceKernels& kernels);
void add_recurrent(DeviceKernels& kernels);
void add_update(DeviceKernels& kernels);
void add_digest(DeviceKernels& kernels);

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
