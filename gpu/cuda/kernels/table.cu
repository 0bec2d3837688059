#include "gpu/cuda/device_tables.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda {
namespace ES_CUDA_SPACE {
namespace {

DeviceKernels all_topics() {
  DeviceKernels kernels{};
  add_gemm(kernels);
  add_conv(kernels);
  add_attention(kernels);
  add_elementwise(kernels);
  add_program(kernels);
  add_fold(kernels);
  add_norm(kernels);
  add_layer_norm(kernels);
  add_softmax(kernels);
  add_pool(kernels);
  add_embedding(kernels);
  add_loss(kernels);
  add_yolo(kernels);
  add_recurrent(kernels);
  add_update(kernels);
  add_digest(kernels);
  return kernels;
}

}  // namespace
}  // namespace ES_CUDA_SPACE

#ifdef __CUDACC__
bool have_gpu_kernels() {
  return true;
}
const DeviceKernels& gpu_kernels() {
#else
const DeviceKernels& host_kernels() {
#endif
  static const DeviceKernels kernels = ES_CUDA_SPACE::all_topics();
  return kernels;
}

}  // namespace es::gpu::cuda
