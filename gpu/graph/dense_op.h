#pragma once
// The operators that a vendor library may run at the levels D0 and D1 (oneDNN on CPUs, cuDNN and
// cuBLAS on GPUs): their shapes and operands, as a library needs them.
#include <string>

#include "gpu/graph/ops/operator.h"

namespace es::gpu {

// Whether the operator is a convolution or one of its gradients; whether it is a linear layer, a
// matrix product, or one of their gradients.
bool is_conv(OpKind kind);
bool is_gemm(OpKind kind);

// REQUIRES: is_conv(kind).
ConvPass conv_pass(OpKind kind);
// Returns the product that the operator computes, or the products of one shape; its factors are
// fp32. REQUIRES: is_gemm().
MatmulShape product_of(const Graph& graph, const Op& op);
// Returns whether a library may compute the operator: one of these, in fp32.
bool is_library_product(const Graph& graph, OpKind kind);
// Returns whether the operator adds a bias to its convolution or product.
bool adds_bias(const Op& op);

// Returns the operands. Sets the padding of a weight gradient to +0. REQUIRES: is_conv() or
// is_gemm().
DenseCall dense_call(const Graph& graph, const Op& op, const RunBuffers& buffers);

// --- Factors that an operator reads as they are stored (Operator::converts_factors), on a device,
// whose kernels and libraries read fp32: they are converted before.

// Returns the floats of memory that the conversions need; 0: there are none.
std::int64_t converted_floats(const OpShapes& op);
// Queues the conversions and replaces the operands. Returns the address behind the memory.
float* convert_factors(const OnDevice& on, const OpRun& run, float* memory, DenseCall& call);
// A CPU needs no memory for them.
inline float* convert_factors(const OnCpu&, const OpRun&, float* memory, DenseCall&) {
  return memory;
}

// --- The same for a library. It reads the whole weight of a linear layer at once, so a weight that
// the operator rounds itself, in blocks (Operator::rounds_weight), is converted as a whole.
std::int64_t library_converted_floats(const OpShapes& op);
void convert_for_library(const OnDevice& on, const OpRun& run, float* memory, DenseCall& call);

// Returns a line of text about an operator that a vendor library refuses.
std::string vendor_refusal(const Op& op, const Error& why);

}  // namespace es::gpu
