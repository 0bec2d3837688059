#include "gpu/graph/op_flops.h"

#include "gpu/canonical/attention_math.h"
#include "gpu/graph/op_run.h"

namespace es::gpu {
namespace {

double conv_flops(const ConvShape& s) {
  return 2.0 * double(s.n * s.oh() * s.ow() * s.oc) * double(s.kh * s.kw * (s.c / s.groups));
}

double attention_flops(const AttentionShape& s) {
  const double scores = double(s.batch * s.heads) * double(queries_of(s) * keys_of(s));
  return 4.0 * scores * double(s.head_dim);
}

}  // namespace

double op_flops(const Graph& graph, const Op& op) {
  const auto weights = [&] { return double(OpShapes{graph, op}.weight_count()); };
  switch (op.kind) {
    case OpKind::kConv2d:
    case OpKind::kConvDgrad:
    case OpKind::kConvWgrad:
      return conv_flops(op.conv);
    case OpKind::kLinear:
      return 2.0 * double(graph.shape(op.out[0]).rows()) * weights();
    case OpKind::kLinearDgrad:
    case OpKind::kLinearWgrad:
    case OpKind::kRecurrent:  // [time, samples, gates * units]
    case OpKind::kRecurrentGrad:
      return 2.0 * double(graph.shape(op.in[0]).rows()) * weights();
    case OpKind::kMatmul:
      return 2.0 * double(op.matmul.count) *
             double(op.matmul.gemm.m * op.matmul.gemm.n * op.matmul.gemm.k);
    case OpKind::kLinearCrossEntropy:  // with its gradients
      return 6.0 * double(graph.shape(op.in[0]).rows()) * double(graph.shape(op.out[1]).count());
    case OpKind::kAttention:
      return attention_flops(op.attention);
    case OpKind::kAttentionGrad:
      return 2.0 * attention_flops(op.attention);
    default:
      return 0.0;
  }
}

double step_flops(const Graph& graph) {
  double sum = 0.0;
  for (const Op& op : graph.ops) sum += op_flops(graph, op);
  return sum;
}

}  // namespace es::gpu
