#pragma once
// Stand-ins for cuBLAS and cuDNN, as shared libraries that the program loads in their place
// (LD_LIBRARY_PATH): what they are asked for they have done by the test, on host memory, and they
// fail as the test says. A test reaches their settings by the functions below.
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
  std::vector<Proposal> proposals;  // for every convolution
  // Scratch that an algorithm wants in an arithmetic.
  std::function<std::size_t(int algorithm, cudnnMathType_t)> scratch;
  // What a convolution that is run answers.
  std::function<cudnnStatus_t(gpu::ConvPass)> runs;
  // Computes it.
  std::function<void(const gpu::ConvShape&, gpu::ConvPass, const float*, const float*, float*)>
      compute;
  // Called at the end of every call.
  std::function<void()> leaves;
  std::vector<cudnnMathType_t> ran_with;
};

struct FakeCublas {
  cublasStatus_t starts = CUBLAS_STATUS_SUCCESS;
  // What a product that is run answers; computes it; called at the end of every call.
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
