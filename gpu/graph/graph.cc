#include "gpu/graph/graph.h"

#include "proto/base/check.h"

namespace es::gpu {
namespace {

const char* gradient_name(OpKind kind) {
  switch (kind) {
    case OpKind::kConvDgrad:
      return "conv2d data gradient";
    case OpKind::kConvWgrad:
      return "conv2d weight gradient";
    case OpKind::kLinearDgrad:
      return "linear data gradient";
    case OpKind::kLinearWgrad:
      return "linear weight gradient";
    case OpKind::kBiasGrad:
      return "bias gradient";
    case OpKind::kBatchNormGrad:
      return "batch_norm gradient";
    case OpKind::kLayerNormGrad:
      return "layer_norm gradient";
    case OpKind::kColumnSum:
      return "column sum";
    case OpKind::kSoftmaxGrad:
      return "softmax gradient";
    case OpKind::kAttentionGrad:
      return "attention gradient";
    case OpKind::kEmbeddingGrad:
      return "embedding gradient";
    case OpKind::kMaxPoolGrad:
      return "max_pool gradient";
    case OpKind::kAvgPoolGrad:
      return "avg_pool gradient";
    case OpKind::kAdaptiveAvgPoolGrad:
      return "adaptive_avg_pool gradient";
    case OpKind::kGlobalAvgPoolGrad:
      return "global_avg_pool gradient";
    case OpKind::kUpsample2Grad:
      return "upsample2 gradient";
    case OpKind::kCrossEntropyGrad:
      return "cross_entropy gradient";
    case OpKind::kBceGrad:
      return "bce_with_logits gradient";
    case OpKind::kMseGrad:
      return "mse gradient";
    default:
      return "?";
  }
}

}  // namespace

std::string shape_text(const TensorShape& s) {
  return "[" + std::to_string(s.n) + "," + std::to_string(s.h) + "," + std::to_string(s.w) + "," +
         std::to_string(s.c) + "]";
}

const TensorShape& Graph::shape(TensorId id) const {
  ES_CHECK(id >= 0 && id < static_cast<TensorId>(tensors.size()));
  return tensors[static_cast<std::size_t>(id)].shape;
}

const char* op_name(OpKind kind) {
  switch (kind) {
    case OpKind::kConv2d:
      return "conv2d";
    case OpKind::kLinear:
      return "linear";
    case OpKind::kMatmul:
      return "matmul";
    case OpKind::kBatchNorm:
      return "batch_norm";
    case OpKind::kLayerNorm:
      return "layer_norm";
    case OpKind::kChain:
      return "element-wise";
    case OpKind::kSoftmax:
      return "softmax";
    case OpKind::kAttention:
      return "attention";
    case OpKind::kEmbedding:
      return "embedding";
    case OpKind::kMaxPool:
      return "max_pool";
    case OpKind::kAvgPool:
      return "avg_pool";
    case OpKind::kAdaptiveAvgPool:
      return "adaptive_avg_pool";
    case OpKind::kGlobalAvgPool:
      return "global_avg_pool";
    case OpKind::kMove:
      return "move";
    case OpKind::kUpsample2:
      return "upsample2";
    case OpKind::kView:
      return "view";
    case OpKind::kCrossEntropy:
      return "cross_entropy";
    case OpKind::kBce:
      return "bce_with_logits";
    case OpKind::kMse:
      return "mse";
    case OpKind::kYolo:
      return "yolo";
    default:
      return gradient_name(kind);
  }
}

bool is_loss(OpKind kind) {
  return kind == OpKind::kCrossEntropy || kind == OpKind::kBce || kind == OpKind::kMse ||
         kind == OpKind::kYolo;
}

bool writes_weight_grad(OpKind kind) {
  return kind == OpKind::kConvWgrad || kind == OpKind::kLinearWgrad ||
         kind == OpKind::kBatchNormGrad || kind == OpKind::kLayerNormGrad ||
         kind == OpKind::kEmbeddingGrad;
}

bool writes_bias_grad(OpKind kind) {
  return kind == OpKind::kBiasGrad || kind == OpKind::kBatchNormGrad ||
         kind == OpKind::kLayerNormGrad;
}

}  // namespace es::gpu
