#include "gpu/graph/graph.h"

#include "proto/base/check.h"

namespace es::gpu {

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
    case OpKind::kBatchNorm:
      return "batch_norm";
    case OpKind::kRelu:
      return "relu";
    case OpKind::kAdd:
      return "add";
    case OpKind::kMaxPool:
      return "max_pool";
    case OpKind::kAvgPool:
      return "avg_pool";
    case OpKind::kGlobalAvgPool:
      return "global_avg_pool";
    case OpKind::kView:
      return "view";
    case OpKind::kSoftmaxXent:
      return "softmax_cross_entropy";
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
    case OpKind::kReluGrad:
      return "relu gradient";
    case OpKind::kMaxPoolGrad:
      return "max_pool gradient";
    case OpKind::kAvgPoolGrad:
      return "avg_pool gradient";
    case OpKind::kGlobalAvgPoolGrad:
      return "global_avg_pool gradient";
    case OpKind::kSoftmaxXentGrad:
      return "softmax_cross_entropy gradient";
  }
  return "?";
}

}  // namespace es::gpu
