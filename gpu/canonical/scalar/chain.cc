#include "gpu/canonical/random_math.h"
#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu::scalar {
namespace {

float apply(const ChainStage& stage, const DropoutKey& key, std::int64_t i, float v) {
  const auto operand = [&] { return stage.operand[i]; };
  switch (stage.kind) {
    case ChainKind::kScale:
      return v * stage.factor;
    case ChainKind::kAdd:
      return v + operand();
    case ChainKind::kMul:
      return v * operand();
    case ChainKind::kAddRow:
      return v + stage.operand[i % stage.columns];
    case ChainKind::kRelu:
      return v > 0.0f ? v : 0.0f;
    case ChainKind::kLeakyRelu:
      return v > 0.0f ? v : v * stage.factor;
    case ChainKind::kGelu:
      return canonical_gelu(v);
    case ChainKind::kTanh:
      return canonical_tanh(v);
    case ChainKind::kSigmoid:
      return canonical_sigmoid(v);
    case ChainKind::kDropout:
      if (stage.dropout.threshold == 0) return v;
      return keeps(stage.dropout, key, i / stage.columns) ? v * stage.dropout.factor : 0.0f;
    case ChainKind::kReluGrad:
      return operand() > 0.0f ? v : 0.0f;
    case ChainKind::kLeakyReluGrad:
      return operand() > 0.0f ? v : v * stage.factor;
    case ChainKind::kGeluGrad:
      return v * canonical_gelu_gradient(operand());
    case ChainKind::kTanhGrad:
      return v * fused(-operand(), operand(), 1.0f);
    case ChainKind::kSigmoidGrad:
      return v * (operand() * (1.0f - operand()));
  }
  return v;
}

}  // namespace

void chain(std::int64_t begin, std::int64_t end, const float* x, const ChainStage* stages,
           std::int64_t count, const DropoutKey& key, float* y) {
  for (std::int64_t i = begin; i < end; ++i) {
    float v = x[i];
    for (std::int64_t s = 0; s < count; ++s) v = apply(stages[s], key, i, v);
    y[i] = v;
  }
}

}  // namespace es::gpu::scalar
