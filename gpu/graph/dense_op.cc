#include "gpu/graph/dense_op.h"

#include "gpu/graph/op_run.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

// The three products of a linear layer y = x * W^T with x [n][in] and W [out][in].
GemmShape linear_forward(std::int64_t n, std::int64_t in, std::int64_t out) {
  return {.m = n,
          .n = out,
          .k = in,
          .a_row = in,
          .a_col = 1,
          .b_row = 1,
          .b_col = in,
          .c_row = out,
          .c_col = 1};
}
GemmShape linear_dgrad(std::int64_t n, std::int64_t in, std::int64_t out) {
  return {.m = n,
          .n = in,
          .k = out,
          .a_row = out,
          .a_col = 1,
          .b_row = in,
          .b_col = 1,
          .c_row = in,
          .c_col = 1};
}
GemmShape linear_wgrad(std::int64_t n, std::int64_t in, std::int64_t out) {
  return {.m = out,
          .n = in,
          .k = n,
          .a_row = 1,
          .a_col = out,
          .b_row = in,
          .b_col = 1,
          .c_row = in,
          .c_col = 1};
}

}  // namespace

bool is_conv(OpKind kind) {
  return kind == OpKind::kConv2d || kind == OpKind::kConvDgrad || kind == OpKind::kConvWgrad;
}

bool is_gemm(OpKind kind) {
  return kind == OpKind::kLinear || kind == OpKind::kLinearDgrad || kind == OpKind::kLinearWgrad ||
         kind == OpKind::kMatmul;
}

GemmShape gemm_shape(const Graph& graph, const Op& op) {
  const TensorShape& first = graph.shape(op.in[0]);
  switch (op.kind) {
    case OpKind::kLinear:
      return linear_forward(first.rows(), first.c, graph.shape(op.out[0]).c);
    case OpKind::kLinearDgrad:
      return linear_dgrad(first.rows(), graph.shape(op.out[0]).c, first.c);
    case OpKind::kLinearWgrad:
      return linear_wgrad(first.rows(), first.c, graph.shape(op.in[1]).c);
    case OpKind::kMatmul:
      return op.matmul.gemm;
    default:
      ES_CHECK_MSG(false, op.name);
  }
}

std::int64_t gemm_count(const Op& op) {
  return op.kind == OpKind::kMatmul ? op.matmul.count : 1;
}

DenseCall dense_call(const Graph& graph, const Op& op, const RunBuffers& buffers) {
  const OpRun run(graph, op, buffers);
  switch (op.kind) {
    case OpKind::kConv2d:
    case OpKind::kLinear:
      return {run.in(0), run.param(op.weight), run.param(op.bias), run.out(0)};
    case OpKind::kConvDgrad:
    case OpKind::kLinearDgrad:
      return {run.in(0), run.param(op.weight), nullptr, run.out(0)};
    case OpKind::kConvWgrad:
      return {run.in(0), run.in(1), nullptr, run.grad(op.weight)};
    case OpKind::kLinearWgrad:  // dW = dy^T x
      return {run.in(1), run.in(0), nullptr, run.grad(op.weight)};
    case OpKind::kMatmul:
      return {run.in(0), run.in(1), nullptr, run.out(0)};
    default:
      ES_CHECK_MSG(false, op.name);
  }
}

}  // namespace es::gpu
