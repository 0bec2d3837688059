#include "gpu/graph/differentiate.h"

#include <algorithm>
#include <utility>

#include "gpu/graph/gradients.h"
#include "gpu/graph/ops/operator.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

// Appends the gradient of a weight or bias: of the operator's parameter, or of `operand` if that is
// a tensor. `place` is where the position of the tensor's gradient is noted. The gradient of a
// parameter is not a tensor, because the operator writes it to the flat gradient array.
void emit_operand_grad(Gradients& g, const Op& forward, OpKind kind, std::vector<TensorId> in,
                       TensorId operand, std::int32_t WeightTensors::*place, Adds adds) {
  Op op = forward;
  op.tensors = {};
  if (operand == kNoTensor) return g.emit(op, kind, std::move(in), {});
  if (!g.needed(operand)) return;
  const TensorId gradient = g.add_tensor(g.graph().shape(operand));
  // With bf16, a contribution is rounded before it is added.
  const bool joins =
      adds == Adds::kYes && !g.graph().tensors[static_cast<std::size_t>(operand)].bf16;
  const TensorId before = joins ? g.of(operand) : kNoTensor;
  op.tensors.*place = 0;
  if (before != kNoTensor) in.push_back(before);
  g.emit(op, kind, std::move(in), {gradient});
  if (before != kNoTensor) return g.replace(operand, gradient);
  g.contribute(forward.name, operand, gradient);
}

}  // namespace

Gradients::Gradients(Graph graph)
    : graph_(std::move(graph)),
      gradient_(graph_.tensors.size(), kNoTensor),
      storage_decided_(graph_.tensors.size(), true) {}

TensorId Gradients::add_tensor(const TensorShape& shape) {
  graph_.tensors.push_back({shape, ElementType::kF32, false});
  gradient_.push_back(kNoTensor);
  storage_decided_.push_back(false);
  return static_cast<TensorId>(graph_.tensors.size() - 1);
}

TensorId Gradients::add_constant(const std::string& name, const TensorShape& shape, float value) {
  // The shape may be a reference to that of a tensor of the graph, which add_tensor() moves, so it
  // is read first.
  std::vector<float> words(static_cast<std::size_t>(shape.count()), value);
  const TensorId t = add_tensor(shape);
  graph_.constants.push_back({name, t, std::move(words)});
  storage_decided_[static_cast<std::size_t>(t)] = true;
  return t;
}

TensorId Gradients::weight_of(const Op& op) const {
  return op.tensors.weight < 0 ? kNoTensor : op.in[static_cast<std::size_t>(op.tensors.weight)];
}

TensorId Gradients::bias_of(const Op& op) const {
  return op.tensors.bias < 0 ? kNoTensor : op.in[static_cast<std::size_t>(op.tensors.bias)];
}

TensorId Gradients::emit_new(Op op, const TensorShape& shape) {
  op.out = {add_tensor(shape)};
  append(std::move(op));
  return graph_.ops.back().out[0];
}

void Gradients::emit(const Op& forward, OpKind kind, std::vector<TensorId> in,
                     std::vector<TensorId> out) {
  Op op = forward;
  op.kind = kind;
  op.in = std::move(in);
  op.out = std::move(out);
  append(std::move(op));
}

void Gradients::emit_data_grad(const Op& forward, OpKind kind, std::vector<TensorId> in, TensorId x,
                               Reads reads) {
  if (!needed(x)) return;
  const TensorId dx = add_tensor(graph_.shape(x)), weight = weight_of(forward);
  Op op = forward;
  op.tensors = {};
  // A weight that is a parameter stays in Op::weight. One that is a tensor becomes an input behind
  // the others, so that the memory plan keeps it until here.
  if (reads == Reads::kWeight && weight != kNoTensor) {
    op.tensors.weight = static_cast<std::int32_t>(in.size());
    in.push_back(weight);
  }
  emit(op, kind, std::move(in), {dx});
  contribute(forward.name, x, dx);
}

void Gradients::emit_weight_grad(const Op& forward, OpKind kind, std::vector<TensorId> in,
                                 Adds adds) {
  emit_operand_grad(*this, forward, kind, std::move(in), weight_of(forward),
                    &WeightTensors::weight_grad, adds);
}

void Gradients::emit_bias_grad(const Op& forward, OpKind kind, std::vector<TensorId> in) {
  if (bias_of(forward) == kNoTensor && forward.bias == kNoParam) return;
  emit_operand_grad(*this, forward, kind, std::move(in), bias_of(forward),
                    &WeightTensors::bias_grad, Adds::kNo);
}

void Gradients::emit_norm_grad(const Op& forward, OpKind kind, std::vector<TensorId> in) {
  const TensorId x = forward.in[0], weight = weight_of(forward), bias = bias_of(forward);
  std::vector<TensorId> out{add_tensor(graph_.shape(x))};
  Op op = forward;
  op.tensors = {};
  const auto add = [&](TensorId t, std::int32_t& position, std::int32_t& gradient) {
    if (t == kNoTensor) return;
    position = static_cast<std::int32_t>(in.size());
    in.push_back(t);
    gradient = static_cast<std::int32_t>(out.size());
    out.push_back(add_tensor(graph_.shape(t)));
  };
  // The kernel writes the gradients of weight, bias and input together, so all of them are outputs
  // here, even one that nothing needs; contribute() leaves that one out.
  add(bias, op.tensors.bias, op.tensors.bias_grad);
  add(weight, op.tensors.weight, op.tensors.weight_grad);
  emit(op, kind, std::move(in), out);
  for (const auto& [t, gradient] :
       {std::pair{bias, op.tensors.bias_grad}, std::pair{weight, op.tensors.weight_grad}})
    if (t != kNoTensor) contribute(forward.name, t, out[static_cast<std::size_t>(gradient)]);
  contribute(forward.name, x, out[0]);
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
  store_like(dx, x);
  // The sum of earlier contributions is in[0] of the addition, and so its left operand. The order
  // of emission thus fixes the order of additions, which decides the bits.
  if (of(x) != kNoTensor) dx = emit_chain(name, of(x), {.kind = ChainKind::kAdd}, dx);
  replace(x, dx);
}

void Gradients::replace(TensorId x, TensorId sum) {
  store_like(sum, x);
  gradient_[static_cast<std::size_t>(x)] = sum;
}

void Gradients::store_like(TensorId dx, TensorId x) {
  const auto at = static_cast<std::size_t>(dx);
  if (storage_decided_[at]) return;
  graph_.tensors[at].bf16 = graph_.tensors[static_cast<std::size_t>(x)].bf16;
  storage_decided_[at] = true;
}

void Gradients::store_views(std::size_t first) {
  for (std::size_t i = first; i < graph_.ops.size(); ++i) {
    const Op& op = graph_.ops[i];
    if (op_def(op.kind).is_view)
      graph_.tensors[static_cast<std::size_t>(op.out[0])].bf16 =
          graph_.tensors[static_cast<std::size_t>(op.in[0])].bf16;
  }
}

Graph Gradients::take_graph(std::size_t first) {
  store_views(first);
  return std::move(graph_);
}

// A step overwrites the gradient array and does not clear it. A trained parameter that no operator
// of this program reaches therefore gets an operator that writes +0.
void Gradients::clear_untouched() {
  std::vector<bool> written(graph_.table.params().size(), false);
  for (const Op& op : graph_.ops) {
    const Operator& entry = op_def(op.kind);
    if (entry.writes_weight_grad && op.weight != kNoParam)
      written[static_cast<std::size_t>(op.weight)] = true;
    if (entry.writes_bias_grad && op.bias != kNoParam)
      written[static_cast<std::size_t>(op.bias)] = true;
  }
  for (std::size_t i = 0; i < graph_.table.trained().size(); ++i)
    if (!written[i])
      append({.kind = OpKind::kParameterGrad,
              .name = graph_.table.trained()[i].name,
              .weight = static_cast<ParamId>(i)});
}

Program differentiate(Graph graph) {
  const std::size_t forward_ops = graph.ops.size();
  Gradients gradients(std::move(graph));
  // In reverse, so all readers of an operator's outputs have contributed their gradients before the
  // operator is differentiated.
  for (std::size_t i = forward_ops; i-- > 0;) {
    const Op op = gradients.graph().ops[i];  // a copy, because the list of operators grows
    const Operator& entry = op_def(op.kind);
    const bool has_gradient = std::any_of(op.out.begin(), op.out.end(),
                                          [&](TensorId t) { return gradients.of(t) != kNoTensor; });
    // No gradient reaches this operator: the loss does not depend on it, or only through integers
    // or a stopped gradient.
    if (!entry.is_loss && !has_gradient) continue;
    ES_CHECK_MSG(entry.gradient != nullptr, std::string("no gradient for ") + entry.name);
    // A gradient belongs to the region of its operator, and reads what recompute.h computes again
    // there.
    gradients.set_region(op.region);
    entry.gradient(gradients, op);
  }
  gradients.set_region(0);
  // These operators belong to no region, since they read nothing.
  gradients.clear_untouched();
  return {gradients.take_graph(forward_ops), forward_ops};
}

}  // namespace es::gpu
