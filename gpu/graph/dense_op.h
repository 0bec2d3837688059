#pragma once
// Shapes and operands of convolutions and matrix products, as a vendor library needs them.
#include "gpu/graph/op_kernels.h"

namespace es::gpu {

// Whether the operator is one that a vendor library could run (gpu/onednn/onednn.h): is_conv() for
// convolutions and their gradients, is_gemm() for linear layers, matrix products and their
// gradients.
bool is_conv(OpKind kind);
bool is_gemm(OpKind kind);

// Returns the product that the operator computes. For kMatmul it is the product that is repeated.
// REQUIRES: is_gemm().
GemmShape gemm_shape(const Graph& graph, const Op& op);
// Returns the number of products of that shape: 1, except for kMatmul, whose steps between products
// are in op.matmul.
std::int64_t gemm_count(const Op& op);

// Operands in mathematical order: convolution forward (x, weights), data gradient (dy, weights),
// weight gradient (x, dy), product (A, B).
struct DenseCall {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* bias = nullptr;  // forward pass only; nullptr: no bias
  float* out = nullptr;
};

// Returns the operands. Sets the padding of a weight gradient to +0. REQUIRES: is_conv() or
// is_gemm().
DenseCall dense_call(const Graph& graph, const Op& op, const RunBuffers& buffers);

}  // namespace es::gpu
