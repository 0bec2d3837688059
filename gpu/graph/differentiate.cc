#include "gpu/graph/differentiate.h"

#include <utility>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

class Differentiator {
 public:
  explicit Differentiator(Graph graph)
      : graph_(std::move(graph)), gradient_(graph_.tensors.size(), kNoTensor) {}

  Program run() {
    const std::size_t forward_ops = graph_.ops.size();
    for (std::size_t i = forward_ops; i-- > 0;) {
      const Op op = graph_.ops[i];  // a copy: the list grows
      differentiate_op(op);
    }
    return {std::move(graph_), forward_ops};
  }

 private:
  bool needs_grad(TensorId t) const { return graph_.tensors[t].needs_grad; }
  const TensorShape& shape(TensorId t) const { return graph_.shape(t); }

  // Gradient of an operator's output. Every operator leads to the loss, so it exists.
  TensorId gradient_of(TensorId t) const {
    ES_CHECK(gradient_[t] != kNoTensor);
    return gradient_[t];
  }

  TensorId add_tensor(const TensorShape& shape) {
    graph_.tensors.push_back({shape, ElementType::kF32, false});
    gradient_.push_back(kNoTensor);
    return static_cast<TensorId>(graph_.tensors.size() - 1);
  }

  // Appends a backward operator that inherits `forward`'s attributes.
  void emit(const Op& forward, OpKind kind, std::vector<TensorId> in, std::vector<TensorId> out) {
    Op op = forward;
    op.kind = kind;
    op.in = std::move(in);
    op.out = std::move(out);
    graph_.ops.push_back(std::move(op));
  }

  // Appends an operator whose one output is a gradient contribution to tensor x.
  void emit_data_grad(const Op& forward, OpKind kind, std::vector<TensorId> in, TensorId x) {
    const TensorId dx = add_tensor(shape(x));
    emit(forward, kind, std::move(in), {dx});
    contribute(forward, x, dx);
  }

  void contribute(const Op& forward, TensorId x, TensorId dx) {
    if (!needs_grad(x)) return;
    if (gradient_[x] == kNoTensor) {
      gradient_[x] = dx;
      return;
    }
    const TensorId sum = add_tensor(shape(x));
    graph_.ops.push_back(
        {.kind = OpKind::kAdd, .name = forward.name, .in = {gradient_[x], dx}, .out = {sum}});
    gradient_[x] = sum;
  }

  void differentiate_op(const Op& op) {
    const TensorId x = op.in[0];
    switch (op.kind) {
      case OpKind::kConv2d:
        return weighted(op, OpKind::kConvWgrad, OpKind::kConvDgrad);
      case OpKind::kLinear:
        return weighted(op, OpKind::kLinearWgrad, OpKind::kLinearDgrad);
      case OpKind::kBatchNorm:
        return emit_data_grad(op, OpKind::kBatchNormGrad,
                              {x, gradient_of(op.out[0]), op.out[1], op.out[2]}, x);
      case OpKind::kAdd:
        return add(op);
      case OpKind::kSoftmaxXent:
        return emit_data_grad(op, OpKind::kSoftmaxXentGrad, {op.out[0]}, x);
      default:
        break;
    }
    if (!needs_grad(x)) return;
    const TensorId dy = gradient_of(op.out[0]);
    switch (op.kind) {
      case OpKind::kRelu:
        return emit_data_grad(op, OpKind::kReluGrad, {op.out[0], dy}, x);
      case OpKind::kMaxPool:
        return emit_data_grad(op, OpKind::kMaxPoolGrad, {dy, op.out[1]}, x);
      case OpKind::kAvgPool:
        return emit_data_grad(op, OpKind::kAvgPoolGrad, {dy}, x);
      case OpKind::kGlobalAvgPool:
        return emit_data_grad(op, OpKind::kGlobalAvgPoolGrad, {dy}, x);
      case OpKind::kView:
        return emit_data_grad(op, OpKind::kView, {dy}, x);
      default:
        ES_CHECK_MSG(false, std::string("no gradient for ") + op_name(op.kind));
    }
  }

  void weighted(const Op& op, OpKind weight_grad, OpKind data_grad) {
    const TensorId x = op.in[0];
    const TensorId dy = gradient_of(op.out[0]);
    if (op.bias != kNoParam) emit(op, OpKind::kBiasGrad, {dy}, {});
    emit(op, weight_grad, {x, dy}, {});
    if (needs_grad(x)) emit_data_grad(op, data_grad, {dy}, x);
  }

  void add(const Op& op) {
    if (!needs_grad(op.out[0])) return;
    TensorId d = gradient_of(op.out[0]);
    if (op.relu) {
      const TensorId masked = add_tensor(shape(op.out[0]));
      emit(op, OpKind::kReluGrad, {op.out[0], d}, {masked});
      d = masked;
    }
    contribute(op, op.in[0], d);
    contribute(op, op.in[1], d);
  }

  Graph graph_;
  std::vector<TensorId> gradient_;  // by tensor; kNoTensor = none yet
};

}  // namespace

Program differentiate(Graph graph) {
  return Differentiator(std::move(graph)).run();
}

}  // namespace es::gpu
