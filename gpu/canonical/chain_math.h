#pragma once
// One stage of an element-wise chain (ChainKind), for several elements at once. The namespace is
// unnamed for the reason given in scalar_math.h.
#include "gpu/canonical/kernels.h"
#include "gpu/canonical/random_math.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu {
namespace {

// values[i] = f(values[i], element number at[i]).
template <int kCount, class Index, class Function>
ES_HD inline void for_values(const Index (&at)[kCount], float (&values)[kCount], Function&& f) {
  ES_UNROLL
  for (int i = 0; i < kCount; ++i) values[i] = f(values[i], at[i]);
}

// Dropout. Neighbouring elements often have the same decision, for example with stochastic depth,
// so it is computed again only if the decision number changes.
template <int kCount, class Index>
ES_HD inline void drop(const ChainStage& s, const DropoutKey& key, const Index (&at)[kCount],
                       float (&values)[kCount]) {
  const auto columns = static_cast<Index>(s.columns);
  Index decision = at[0] / columns;
  bool kept = keeps(s.dropout, key, decision);
  for_values(at, values, [&](float v, Index i) {
    if (i / columns != decision) kept = keeps(s.dropout, key, decision = i / columns);
    return keep_scaled(kept, v, s.dropout.factor);
  });
}

// Applies the stage to values[i], which is the running value of element at[i]. `operand` is what
// operand[i] reads: the stage's pointer, or an object that converts the numbers.
template <int kCount, class Index, class Operand>
ES_HD inline void apply_stage(const ChainStage& s, const DropoutKey& key, const Index (&at)[kCount],
                              float (&values)[kCount], const Operand operand) {
  const float factor = s.factor;
  const auto columns = static_cast<Index>(s.columns);
  switch (s.kind) {
    case ChainKind::kScale:
      return for_values(at, values, [=](float v, Index) { return v * factor; });
    case ChainKind::kAdd:
      return for_values(at, values, [=](float v, Index i) { return v + operand[i]; });
    case ChainKind::kMul:
      return for_values(at, values, [=](float v, Index i) { return v * operand[i]; });
    case ChainKind::kAddRow:
      return for_values(at, values, [=](float v, Index i) { return v + operand[i % columns]; });
    case ChainKind::kRelu:
      return for_values(at, values, [=](float v, Index) { return positive_part(v); });
    case ChainKind::kLeakyRelu:
      return for_values(at, values, [=](float v, Index) { return leaky(v, v, factor); });
    case ChainKind::kDropout:
      if (s.dropout.threshold != 0) drop(s, key, at, values);
      return;
    case ChainKind::kReluGrad:
      return for_values(at, values, [=](float v, Index i) { return keep_positive(v, operand[i]); });
    case ChainKind::kLeakyReluGrad:
      return for_values(at, values, [=](float v, Index i) { return leaky(v, operand[i], factor); });
    case ChainKind::kTanhGrad:
      return for_values(at, values, [=](float v, Index i) {
        const float y = operand[i];
        return v * fma(-y, y, 1.0f);
      });
    case ChainKind::kSigmoidGrad:
      return for_values(at, values, [=](float v, Index i) {
        const float y = operand[i];
        return v * (y * (1.0f - y));
      });
    case ChainKind::kGelu:
      return for_values(at, values, [](float v, Index) { return canonical_gelu(v); });
    case ChainKind::kTanh:
      return for_values(at, values, [](float v, Index) { return canonical_tanh(v); });
    case ChainKind::kSigmoid:
      return for_values(at, values, [](float v, Index) { return canonical_sigmoid(v); });
    case ChainKind::kGeluGrad:
      return for_values(at, values,
                        [=](float v, Index i) { return v * canonical_gelu_gradient(operand[i]); });
    case ChainKind::kRoundBf16:
      return for_values(at, values, [](float v, Index) { return rounded_to_bf16(v); });
  }
}

}  // namespace
}  // namespace es::gpu
