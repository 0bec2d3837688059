// Text for users: the kernels that an operator uses, and the parts of a fused operator.
#include "gpu/graph/op_kernels.h"

namespace es::gpu {
namespace {

const char* stage_name(ChainKind kind) {
  switch (kind) {
    case ChainKind::kScale:
      return "scale";
    case ChainKind::kAdd:
      return "add";
    case ChainKind::kMul:
      return "mul";
    case ChainKind::kAddRow:
      return "add_rows";
    case ChainKind::kRelu:
      return "relu";
    case ChainKind::kLeakyRelu:
      return "leaky_relu";
    case ChainKind::kGelu:
      return "gelu";
    case ChainKind::kTanh:
      return "tanh";
    case ChainKind::kSigmoid:
      return "sigmoid";
    case ChainKind::kDropout:
      return "dropout";
    case ChainKind::kReluGrad:
      return "relu gradient";
    case ChainKind::kLeakyReluGrad:
      return "leaky_relu gradient";
    case ChainKind::kGeluGrad:
      return "gelu gradient";
    case ChainKind::kTanhGrad:
      return "tanh gradient";
    case ChainKind::kSigmoidGrad:
      return "sigmoid gradient";
  }
  return "?";
}

}  // namespace

std::string kernel_names(const Op& op) {
  switch (op.kind) {
    case OpKind::kConv2d:
      return "conv_fwd, conv_dgrad, conv_wgrad";
    case OpKind::kLinear:
      return "gemm";
    case OpKind::kMatmul:
      return "gemm_batched";
    case OpKind::kBatchNorm:
      return "bn_train_fwd, bn_bwd, bn_eval";
    case OpKind::kLayerNorm:
      return "layer_norm_fwd, layer_norm_bwd";
    case OpKind::kChain:
      return "chain";
    case OpKind::kSoftmax:
      return "softmax_fwd, softmax_bwd";
    case OpKind::kAttention:
      return "attention_fwd, attention_bwd";
    case OpKind::kEmbedding:
      return "embedding_fwd, embedding_bwd";
    case OpKind::kMaxPool:
      return "max_pool_fwd, max_pool_bwd";
    case OpKind::kAvgPool:
      return "avg_pool_fwd, avg_pool_bwd";
    case OpKind::kAdaptiveAvgPool:
      return "adaptive_avg_pool_fwd, adaptive_avg_pool_bwd";
    case OpKind::kGlobalAvgPool:
      return "global_avg_pool_fwd, global_avg_pool_bwd";
    case OpKind::kMove:
      return "move";
    case OpKind::kUpsample2:
      return "move, upsample2_bwd";
    case OpKind::kCrossEntropy:
      return "softmax_xent_fwd, softmax_xent_bwd";
    case OpKind::kBce:
      return "bce_fwd, bce_bwd";
    case OpKind::kMse:
      return "mse_fwd, mse_bwd";
    case OpKind::kYolo:
      return "yolo_loss";
    default:
      return "none";
  }
}

std::string op_detail(const Op& op) {
  if (op.kind == OpKind::kBatchNorm) {
    if (op.activation == Activation::kRelu) return "relu";
    if (op.activation == Activation::kLeakyRelu) return "leaky_relu";
  }
  std::string text;
  for (const ChainStep& step : op.chain)
    text += (text.empty() ? "" : ", ") + std::string(stage_name(step.kind));
  return text;
}

}  // namespace es::gpu
