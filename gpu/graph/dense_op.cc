#include "gpu/graph/dense_op.h"

#include "proto/base/check.h"

namespace es::gpu {

bool is_conv(OpKind kind) {
  return op_def(kind).dense.conv.has_value();
}

bool is_gemm(OpKind kind) {
  return op_def(kind).dense.product != nullptr;
}

bool is_library_product(const Graph& graph, OpKind kind) {
  return is_gemm(kind) && !(graph.bf16 && op_def(kind).rounds_weight);
}

ConvPass conv_pass(OpKind kind) {
  ES_CHECK(is_conv(kind));
  return *op_def(kind).dense.conv;
}

MatmulShape product_of(const Graph& graph, const Op& op) {
  ES_CHECK_MSG(is_gemm(op.kind), op.name);
  return op_def(op.kind).dense.product({graph, op});
}

// A library binds its kernel to this answer before any address is known, so it comes from the
// operator and not from DenseCall::bias.
bool adds_bias(const Op& op) {
  return op_def(op.kind).dense.takes_bias && (op.bias != kNoParam || op.tensors.bias >= 0);
}

DenseCall dense_call(const Graph& graph, const Op& op, const RunBuffers& buffers) {
  const auto call = op_def(op.kind).dense.call;
  ES_CHECK_MSG(call != nullptr, op.name);
  return call(OpRun(graph, op, buffers));
}

std::string vendor_refusal(const Op& op, const Error& why) {
  return op.name + " (" + op_name(op.kind) + "): " + why.message + ", so the canonical kernel runs";
}

}  // namespace es::gpu
