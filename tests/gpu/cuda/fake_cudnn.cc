// A stand-in for cuDNN (fake_vendor.h).
#include "gpu/cuda/launch_host.h"
#include "tests/gpu/cuda/fake_vendor.h"

using es::gpu::ConvPass;
using es::gpu::ConvShape;
using es::test::FakeCudnn;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  int n, c, h, w;
};
struct cudnnFilterStruct {
  int oc, c, h, w;
};
struct cudnnConvolutionStruct {
  int pad, stride, groups;
  cudnnMathType_t math;
};

namespace {

FakeCudnn& fake() {
  return *es_fake_cudnn();
}

cudnnStatus_t done(cudnnStatus_t status = CUDNN_STATUS_SUCCESS) {
  if (fake().leaves) fake().leaves();
  return status;
}

template <class T>
cudnnStatus_t make(T** made) {
  *made = new T{};
  return done();
}
template <class T>
cudnnStatus_t destroy(T* made) {
  delete made;
  return done();
}

template <class Perf, class Algorithm>
cudnnStatus_t propose(int most, int* count, Perf* found) {
  *count = 0;
  for (const FakeCudnn::Proposal& p : fake().proposals) {
    if (*count == most) break;
    Perf& perf = found[(*count)++];
    perf = {};
    perf.algo = static_cast<Algorithm>(p.algorithm);
    perf.status = CUDNN_STATUS_SUCCESS;
    perf.memory = fake().scratch(p.algorithm, p.math);
    perf.determinism = p.determinism;
    perf.mathType = p.math;
  }
  return done();
}

cudnnStatus_t scratch(cudnnConvolutionDescriptor_t conv, int algorithm, std::size_t* bytes) {
  *bytes = fake().scratch(algorithm, conv->math);
  return done();
}

struct Call {
  ConvPass pass;
  cudnnTensorDescriptor_t x, y;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t conv;
  int algorithm;
  std::size_t bytes;
};

// Like cuDNN, it refuses too little scratch memory.
cudnnStatus_t run(cudnnHandle_t handle, const Call& call, const void* a, const void* b, void* out) {
  const cudnnStatus_t status = fake().runs ? fake().runs(call.pass) : CUDNN_STATUS_SUCCESS;
  if (status != CUDNN_STATUS_SUCCESS) return done(status);
  if (call.bytes < fake().scratch(call.algorithm, call.conv->math))
    return done(CUDNN_STATUS_BAD_PARAM);
  fake().ran_with.push_back(call.conv->math);
  const ConvShape shape{.n = call.x->n,
                        .h = call.x->h,
                        .w = call.x->w,
                        .c = call.x->c,
                        .oc = call.w->oc,
                        .kh = call.w->h,
                        .kw = call.w->w,
                        .stride = call.conv->stride,
                        .pad = call.conv->pad,
                        .groups = call.conv->groups};
  auto* const queue = static_cast<es::gpu::cuda::HostQueue*>(static_cast<void*>(handle->stream));
  queue->add([=, pass = call.pass] {
    fake().compute(shape, pass, static_cast<const float*>(a), static_cast<const float*>(b),
                   static_cast<float*>(out));
  });
  return done();
}

}  // namespace

extern "C" {

FakeCudnn* es_fake_cudnn() {
  static FakeCudnn one;
  return &one;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (fake().starts != CUDNN_STATUS_SUCCESS) return done(fake().starts);
  return make(handle);
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return destroy(handle);
}
std::size_t cudnnGetVersion() {
  return 91900;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_NOT_SUPPORTED ? "fake: not supported" : "fake: another error";
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return done();
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* made) {
  return make(made);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t made) {
  return destroy(made);
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t t, cudnnTensorFormat_t,
                                         cudnnDataType_t, int n, int c, int h, int w) {
  *t = {n, c, h, w};
  return done();
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* made) {
  return make(made);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t made) {
  return destroy(made);
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t f, cudnnDataType_t,
                                         cudnnTensorFormat_t, int k, int c, int h, int w) {
  *f = {k, c, h, w};
  return done();
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* made) {
  return make(made);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t made) {
  return destroy(made);
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t c, int pad, int,
                                              int step, int, int, int, cudnnConvolutionMode_t,
                                              cudnnDataType_t) {
  *c = {pad, step, 1, CUDNN_DEFAULT_MATH};
  return done();
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
  c->groups = groups;
  return done();
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t math) {
  c->math = math;
  return done();
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t,
                                                     const cudnnFilterDescriptor_t,
                                                     const cudnnConvolutionDescriptor_t,
                                                     const cudnnTensorDescriptor_t, const int most,
                                                     int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* found) {
  return propose<cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t>(most, count, found);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, const cudnnFilterDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnConvolutionDescriptor_t, const cudnnTensorDescriptor_t, const int most, int* count,
    cudnnConvolutionBwdDataAlgoPerf_t* found) {
  return propose<cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t>(most, count,
                                                                                   found);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnConvolutionDescriptor_t, const cudnnFilterDescriptor_t, const int most, int* count,
    cudnnConvolutionBwdFilterAlgoPerf_t* found) {
  return propose<cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t>(most, count,
                                                                                       found);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, const cudnnTensorDescriptor_t,
                                                      const cudnnFilterDescriptor_t,
                                                      const cudnnConvolutionDescriptor_t conv,
                                                      const cudnnTensorDescriptor_t,
                                                      cudnnConvolutionFwdAlgo_t algorithm,
                                                      std::size_t* bytes) {
  return scratch(conv, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, const cudnnFilterDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t,
    cudnnConvolutionBwdDataAlgo_t algorithm, std::size_t* bytes) {
  return scratch(conv, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t,
    cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
  return scratch(conv, algorithm, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void*,
                                      const cudnnTensorDescriptor_t x, const void* x_data,
                                      const cudnnFilterDescriptor_t w, const void* w_data,
                                      const cudnnConvolutionDescriptor_t conv,
                                      cudnnConvolutionFwdAlgo_t algorithm, void*, std::size_t bytes,
                                      const void*, const cudnnTensorDescriptor_t y, void* y_data) {
  return run(handle, {ConvPass::kForward, x, y, w, conv, algorithm, bytes}, x_data, w_data, y_data);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void*,
                                           const cudnnFilterDescriptor_t w, const void* w_data,
                                           const cudnnTensorDescriptor_t dy, const void* dy_data,
                                           const cudnnConvolutionDescriptor_t conv,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void*,
                                           std::size_t bytes, const void*,
                                           const cudnnTensorDescriptor_t dx, void* dx_data) {
  return run(handle, {ConvPass::kDataGradient, dx, dy, w, conv, algorithm, bytes}, dy_data, w_data,
             dx_data);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void*,
                                             const cudnnTensorDescriptor_t x, const void* x_data,
                                             const cudnnTensorDescriptor_t dy, const void* dy_data,
                                             const cudnnConvolutionDescriptor_t conv,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void*,
                                             std::size_t bytes, const void*,
                                             const cudnnFilterDescriptor_t dw, void* dw_data) {
  return run(handle, {ConvPass::kWeightGradient, x, dy, dw, conv, algorithm, bytes}, x_data,
             dy_data, dw_data);
}

}  // extern "C"
