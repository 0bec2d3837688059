#pragma once
// Stand-ins for cuBLAS and cuDNN, as shared libraries that the program loads instead of them
// (LD_LIBRARY_PATH). They pass their calls to the test, which computes the results on host memory,
// and they fail when the test requests it. A test changes their settings with the functions below.
#include <cublas_v2.h>
#include <cudnn.h>

#include <functional>
#include <vector>

#include "gpu/canonical/kernels.h"

namespace es::test {

struct FakeCudnn {
  struct Proposal {
    int algorithm = 0;
    cudnnMathType_t math = CUDNN_FMA_MATH;
    cudnnDeterminism_t determinism = CUDNN_DETERMINISTIC;
  };

  cudnnStatus_t starts = CUDNN_STATUS_SUCCESS;
  std::vector<Proposal> proposals;  // For every convolution.
  // The scratch memory that an algorithm needs in an arithmetic.
  std::function<std::size_t(int algorithm, cudnnMathType_t)> scratch;
  // The status that a running convolution returns.
  std::function<cudnnStatus_t(gpu::ConvPass)> runs;
  // Computes the convolution.
  std::function<void(const gpu::ConvShape&, gpu::ConvPass, const float*, const float*, float*)>
      compute;
  // Called at the end of every call.
  std::function<void()> leaves;
  std::vector<cudnnMathType_t> ran_with;
};

struct FakeCublas {
  cublasStatus_t starts = CUBLAS_STATUS_SUCCESS;
  // The status that a running product returns, the function that computes it, and one that is
  // called at the end of every call.
  std::function<cublasStatus_t()> runs;
  std::function<void(const gpu::GemmShape&, const float*, const float*, float*)> compute;
  std::function<void()> leaves;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  int ran = 0;
};

}  // namespace es::test

extern "C" {
es::test::FakeCudnn* es_fake_cudnn();
es::test::FakeCublas* es_fake_cublas();
}
