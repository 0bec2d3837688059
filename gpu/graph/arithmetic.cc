#include "gpu/graph/arithmetic.h"

#include <algorithm>
#include <vector>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

Arithmetic arithmetic_named(const std::string& name) {
  if (name == "x15") return Arithmetic::kX15;
  if (name == "x22") return Arithmetic::kX22;
  ES_CHECK_MSG(name == "fp32", name);
  return Arithmetic::kFp32;
}

}  // namespace

Graph choose_arithmetic(Graph model, const std::string& arithmetic) {
  model.arithmetic = arithmetic_named(arithmetic);
  // In reverse, so all readers of a tensor come before the operator that writes it.
  std::vector<bool> is_logits(model.tensors.size(), false);
  const auto mark = [&](TensorId t) { is_logits[static_cast<std::size_t>(t)] = true; };
  for (std::size_t i = model.ops.size(); i-- > 0;) {
    Op& op = model.ops[i];
    if (op.kind == OpKind::kCrossEntropy) mark(op.in[0]);
    if (op.out.size() != 1 || !is_logits[static_cast<std::size_t>(op.out[0])]) continue;
    if (op.kind == OpKind::kLinear) op.before_loss = true;
    if (op.kind == OpKind::kView || op.kind == OpKind::kMove) std::ranges::for_each(op.in, mark);
  }
  return model;
}

Arithmetic arithmetic_of(const Graph& graph, const Op& op) {
  const bool gradient = op.kind == OpKind::kLinearDgrad || op.kind == OpKind::kLinearWgrad;
  return gradient ? arithmetic_of_gradients(graph, op) : graph.arithmetic;
}

Arithmetic arithmetic_of_gradients(const Graph& graph, const Op& op) {
  return op.before_loss && graph.arithmetic == Arithmetic::kX15 ? Arithmetic::kX22
                                                                : graph.arithmetic;
}

}  // namespace es::gpu
