#include "gpu/graph/differentiate.h"

#include <algorithm>
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
      const Op op = graph_.ops[i];  // a copy, because the list of operators grows
      if (is_loss(op.kind)) {
        loss(op);
      } else if (std::any_of(op.out.begin(), op.out.end(),
                             [&](TensorId t) { return gradient(t) != kNoTensor; })) {
        differentiate_op(op);
      }
    }
    return {std::move(graph_), forward_ops};
  }

 private:
  bool needs_grad(TensorId t) const {
    return graph_.tensors[static_cast<std::size_t>(t)].needs_grad;
  }
  const TensorShape& shape(TensorId t) const { return graph_.shape(t); }
  TensorId& gradient(TensorId t) { return gradient_[static_cast<std::size_t>(t)]; }

  TensorId add_tensor(const TensorShape& shape) {
    graph_.tensors.push_back({shape, ElementType::kF32, false});
    gradient_.push_back(kNoTensor);
    return static_cast<TensorId>(graph_.tensors.size() - 1);
  }

  // Appends a backward operator that has the attributes of `forward`.
  void emit(const Op& forward, OpKind kind, std::vector<TensorId> in, std::vector<TensorId> out) {
    Op op = forward;
    op.kind = kind;
    op.in = std::move(in);
    op.out = std::move(out);
    graph_.ops.push_back(std::move(op));
  }

  // Appends an operator whose single output is a contribution to the gradient of tensor x.
  void emit_data_grad(const Op& forward, OpKind kind, std::vector<TensorId> in, TensorId x) {
    if (!needs_grad(x)) return;
    const TensorId dx = add_tensor(shape(x));
    emit(forward, kind, std::move(in), {dx});
    contribute(forward.name, x, dx);
  }

  // Appends a chain with one stage. The result has the shape of dy.
  TensorId emit_chain(const std::string& name, TensorId dy, ChainStep step,
                      TensorId operand = kNoTensor) {
    const TensorId out = add_tensor(shape(dy));
    Op op{.kind = OpKind::kChain, .name = name, .in = {dy}, .out = {out}};
    step.operand = operand == kNoTensor ? 0 : 1;
    if (operand != kNoTensor) op.in.push_back(operand);
    op.chain = {step};
    graph_.ops.push_back(std::move(op));
    return out;
  }

  // Adds a contribution to the gradient of x. The sum of earlier contributions is the left operand,
  // so the order of emission fixes the order of additions.
  void contribute(const std::string& name, TensorId x, TensorId dx) {
    if (!needs_grad(x)) return;
    if (gradient(x) != kNoTensor) dx = emit_chain(name, gradient(x), {.kind = ChainKind::kAdd}, dx);
    gradient(x) = dx;
  }

  void loss(const Op& op) {
    switch (op.kind) {
      case OpKind::kCrossEntropy:
        return emit_data_grad(op, OpKind::kCrossEntropyGrad, {op.out[0], op.in[1]}, op.in[0]);
      case OpKind::kBce:
        return emit_data_grad(op, OpKind::kBceGrad, op.in, op.in[0]);
      case OpKind::kMse:
        return emit_data_grad(op, OpKind::kMseGrad, op.in, op.in[0]);
      default:  // the YOLO loss computes its gradients together with the loss
        for (std::size_t s = 0; s < 3; ++s) contribute(op.name, op.in[s], op.out[s]);
    }
  }

  void differentiate_op(const Op& op) {
    const TensorId x = op.in[0], y = op.out[0], dy = gradient(y);
    switch (op.kind) {
      case OpKind::kConv2d:
        return weighted(op, OpKind::kConvWgrad, OpKind::kConvDgrad);
      case OpKind::kLinear:
        return weighted(op, OpKind::kLinearWgrad, OpKind::kLinearDgrad);
      case OpKind::kMatmul:
        return matmul(op);
      case OpKind::kBatchNorm:
        return normalised(op, OpKind::kBatchNormGrad);
      case OpKind::kLayerNorm:
        return normalised(op, OpKind::kLayerNormGrad);
      case OpKind::kChain:
        return chain(op);
      case OpKind::kSoftmax:
        return emit_data_grad(op, OpKind::kSoftmaxGrad, {y, dy}, x);
      case OpKind::kAttention:
        return attention(op);
      case OpKind::kEmbedding:
        return emit(op, OpKind::kEmbeddingGrad, {x, dy}, {});
      case OpKind::kMaxPool:
        return emit_data_grad(op, OpKind::kMaxPoolGrad, {dy, op.out[1]}, x);
      case OpKind::kAvgPool:
        return emit_data_grad(op, OpKind::kAvgPoolGrad, {dy}, x);
      case OpKind::kAdaptiveAvgPool:
        return emit_data_grad(op, OpKind::kAdaptiveAvgPoolGrad, {dy}, x);
      case OpKind::kGlobalAvgPool:
        return emit_data_grad(op, OpKind::kGlobalAvgPoolGrad, {dy}, x);
      case OpKind::kMove:
        return move(op);
      case OpKind::kUpsample2:
        return emit_data_grad(op, OpKind::kUpsample2Grad, {dy}, x);
      case OpKind::kView:
        return emit_data_grad(op, OpKind::kView, {dy}, x);
      default:
        ES_CHECK_MSG(false, std::string("no gradient for ") + op_name(op.kind));
    }
  }

  void weighted(const Op& op, OpKind weight_grad, OpKind data_grad) {
    const TensorId x = op.in[0], dy = gradient(op.out[0]);
    if (op.bias != kNoParam) emit(op, OpKind::kBiasGrad, {dy}, {});
    emit(op, weight_grad, {x, dy}, {});
    emit_data_grad(op, data_grad, {dy}, x);
  }

  // y = a b gives da = dy b^T and db = a^T dy, separately for each product of the batch.
  void matmul(const Op& op) {
    const TensorId a = op.in[0], b = op.in[1], dy = gradient(op.out[0]);
    const MatmulShape& s = op.matmul;
    const GemmShape& g = s.gemm;
    Op da = op, db = op;
    da.matmul = {.gemm = {.m = g.m,
                          .n = g.k,
                          .k = g.n,
                          .a_row = g.c_row,
                          .a_col = g.c_col,
                          .b_row = g.b_col,
                          .b_col = g.b_row,
                          .c_row = g.a_row,
                          .c_col = g.a_col},
                 .count = s.count,
                 .a_step = s.y_step,
                 .b_step = s.b_step,
                 .y_step = s.a_step};
    db.matmul = {.gemm = {.m = g.k,
                          .n = g.n,
                          .k = g.m,
                          .a_row = g.a_col,
                          .a_col = g.a_row,
                          .b_row = g.c_row,
                          .b_col = g.c_col,
                          .c_row = g.b_row,
                          .c_col = g.b_col},
                 .count = s.count,
                 .a_step = s.a_step,
                 .b_step = s.y_step,
                 .y_step = s.b_step};
    emit_data_grad(da, OpKind::kMatmul, {dy, b}, a);
    emit_data_grad(db, OpKind::kMatmul, {a, dy}, b);
  }

  // The kernel computes the gradients of the parameters together with dx, so dx is computed even if
  // the input needs no gradient.
  void normalised(const Op& op, OpKind kind) {
    const TensorId x = op.in[0], dx = add_tensor(shape(x));
    emit(op, kind, {x, gradient(op.out[0]), op.out[1], op.out[2]}, {dx});
    contribute(op.name, x, dx);
  }

  void chain(const Op& op) {
    ES_CHECK(op.chain.size() == 1);
    const ChainStep& step = op.chain[0];
    const TensorId x = op.in[0], y = op.out[0], dy = gradient(y);
    const auto local = [&](ChainKind kind, TensorId operand) {
      contribute(op.name, x,
                 emit_chain(op.name, dy, {.kind = kind, .factor = step.factor}, operand));
    };
    switch (step.kind) {
      case ChainKind::kRelu:
        return local(ChainKind::kReluGrad, y);
      case ChainKind::kLeakyRelu:
        return local(ChainKind::kLeakyReluGrad, y);
      case ChainKind::kGelu:
        return local(ChainKind::kGeluGrad, x);
      case ChainKind::kTanh:
        return local(ChainKind::kTanhGrad, y);
      case ChainKind::kSigmoid:
        return local(ChainKind::kSigmoidGrad, y);
      case ChainKind::kScale:
      // The gradient makes the same decisions again, from the same counters.
      case ChainKind::kDropout:
        return contribute(op.name, x, emit_chain(op.name, dy, step));
      case ChainKind::kAdd:
        // Both operands receive dy itself, without a copy.
        contribute(op.name, x, dy);
        return contribute(op.name, op.in[1], dy);
      case ChainKind::kMul:
        if (needs_grad(x)) local(ChainKind::kMul, op.in[1]);
        if (needs_grad(op.in[1]))
          contribute(op.name, op.in[1], emit_chain(op.name, dy, {.kind = ChainKind::kMul}, x));
        return;
      case ChainKind::kAddRow:
        contribute(op.name, x, dy);
        return emit_data_grad(op, OpKind::kColumnSum, {dy}, op.in[1]);
      default:
        ES_CHECK_MSG(false, op.name);
    }
  }

  void attention(const Op& op) {
    std::vector<TensorId> in = op.in, out;
    in.push_back(op.out[1]);
    in.push_back(gradient(op.out[0]));
    const auto products = static_cast<std::size_t>(op.attention_in.first_extra());
    for (std::size_t i = 0; i < products; ++i) out.push_back(add_tensor(shape(op.in[i])));
    const TensorId bias = op.attention_in.bias < 0
                              ? kNoTensor
                              : op.in[static_cast<std::size_t>(op.attention_in.bias)];
    const bool bias_grad = bias != kNoTensor && needs_grad(bias);
    if (bias_grad) out.push_back(add_tensor(shape(bias)));
    emit(op, OpKind::kAttentionGrad, std::move(in), out);
    for (std::size_t i = 0; i < products; ++i) contribute(op.name, op.in[i], out[i]);
    if (bias_grad) contribute(op.name, bias, out.back());
  }

  // The gradient of a move copies in the opposite direction, from the outputs that have a gradient
  // to the inputs that need one. A word that was not read has gradient +0, which is what a move
  // leaves where it does not write.
  void move(const Op& op) {
    std::vector<TensorId> dys, dxs;
    std::vector<std::int32_t> source_of(op.out.size(), -1), target_of(op.in.size(), -1);
    for (std::size_t i = 0; i < op.out.size(); ++i) {
      if (gradient(op.out[i]) == kNoTensor) continue;
      source_of[i] = static_cast<std::int32_t>(dys.size());
      dys.push_back(gradient(op.out[i]));
    }
    std::vector<TensorId> xs;
    for (std::size_t i = 0; i < op.in.size(); ++i) {
      if (!needs_grad(op.in[i])) continue;
      target_of[i] = static_cast<std::int32_t>(dxs.size());
      xs.push_back(op.in[i]);
      dxs.push_back(add_tensor(shape(op.in[i])));
    }
    Op back{.kind = OpKind::kMove, .name = op.name, .in = dys, .out = dxs};
    for (BlockCopy copy : transposed(op.move)) {
      copy.source = source_of[static_cast<std::size_t>(copy.source)];
      copy.target = target_of[static_cast<std::size_t>(copy.target)];
      if (copy.source >= 0 && copy.target >= 0) back.move.push_back(copy);
    }
    graph_.ops.push_back(std::move(back));
    for (std::size_t i = 0; i < xs.size(); ++i) contribute(op.name, xs[i], dxs[i]);
  }

  Graph graph_;
  std::vector<TensorId> gradient_;  // [tensor]; kNoTensor: none yet
};

}  // namespace

Program differentiate(Graph graph) {
  return Differentiator(std::move(graph)).run();
}

}  // namespace es::gpu
