#pragma once
// Convolutions and matrix products as a library would compute them: shape and operands of operators
// that have vendor alternatives.
#include "gpu/graph/op_kernels.h"

namespace es::gpu {

// Whether a vendor library could run the operator (gpu/vendor/vendor.h): convolutions, linear
// layers, matrix products and their gradients. is_dense = is_conv or is_gemm.
bool is_conv(OpKind kind);
bool is_gemm(OpKind kind);

// The product that the operator computes; of kMatmul the one that is repeated. REQUIRES: is_gemm.
GemmShape gemm_shape(const Graph& graph, const Op& op);
// How many products of that shape: 1 but for kMatmul, whose steps are in op.matmul.
std::int64_t gemm_count(const Op& op);

// Operands in the order of the mathematics: convolution forward (x, weights), data gradient
// (dy, weights), weight gradient (x, dy); product (A, B).
struct DenseCall {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* bias = nullptr;  // forward only, nullptr = without
  float* out = nullptr;
};

// Sets the padding of a weight gradient to +0. REQUIRES: is_conv or is_gemm.
DenseCall dense_call(const Graph& graph, const Op& op, const RunBuffers& buffers);

}  // namespace es::gpu
