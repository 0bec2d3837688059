#include "gpu/graph/differentiate.h"

#include <algorithm>
#include <utility>

#include "gpu/graph/gradients.h"
#include "gpu/graph/ops/operator.h"
#include "proto/base/check.h"

namespace es::gpu {

Gradients::Gradients(Graph graph)
    : graph_(std::move(graph)), gradient_(graph_.tensors.size(), kNoTensor) {}

TensorId Gradients::add_tensor(const TensorShape& shape) {
  graph_.tensors.push_back({shape, ElementType::kF32, false});
  gradient_.push_back(kNoTensor);
  return static_cast<TensorId>(graph_.tensors.size() - 1);
}

void Gradients::emit(const Op& forward, OpKind kind, std::vector<TensorId> in,
                     std::vector<TensorId> out) {
  Op op = forward;
  op.kind = kind;
  op.in = std::move(in);
  op.out = std::move(out);
  append(std::move(op));
}

void Gradients::emit_data_grad(const Op& forward, OpKind kind, std::vector<TensorId> in,
                               TensorId x) {
  if (!needed(x)) return;
  const TensorId dx = add_tensor(graph_.shape(x));
  emit(forward, kind, std::move(in), {dx});
  contribute(forward.name, x, dx);
}

TensorId Gradients::emit_chain(const std::string& name, TensorId dy, ChainStep step,
                               TensorId operand) {
  const TensorId out = add_tensor(graph_.shape(dy));
  Op op{.kind = OpKind::kChain, .name = name, .in = {dy}, .out = {out}};
  step.operand = operand == kNoTensor ? 0 : 1;
  if (operand != kNoTensor) op.in.push_back(operand);
  op.chain = {step};
  append(std::move(op));
  return out;
}

void Gradients::contribute(const std::string& name, TensorId x, TensorId dx) {
  if (!needed(x)) return;
  if (of(x) != kNoTensor) dx = emit_chain(name, of(x), {.kind = ChainKind::kAdd}, dx);
  gradient_[static_cast<std::size_t>(x)] = dx;
}

Program differentiate(Graph graph) {
  const std::size_t forward_ops = graph.ops.size();
  Gradients gradients(std::move(graph));
  for (std::size_t i = forward_ops; i-- > 0;) {
    const Op op = gradients.graph().ops[i];  // a copy, because the list of operators grows
    const Operator& entry = op_def(op.kind);
    const bool has_gradient = std::any_of(op.out.begin(), op.out.end(),
                                          [&](TensorId t) { return gradients.of(t) != kNoTensor; });
    if (!entry.is_loss && !has_gradient) continue;
    ES_CHECK_MSG(entry.gradient != nullptr, std::string("no gradient for ") + entry.name);
    entry.gradient(gradients, op);
  }
  return {gradients.take_graph(), forward_ops};
}

}  // namespace es::gpu
