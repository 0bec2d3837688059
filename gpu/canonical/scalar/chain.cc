#include "gpu/canonical/chain_math.h"
#include "gpu/canonical/scalar/scalar.h"

namespace es::gpu::scalar {

void chain(std::int64_t begin, std::int64_t end, const float* x, const ChainStage* stages,
           std::int64_t count, const DropoutKey& key, float* y) {
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t at[1] = {i};
    float v[1] = {x[i]};
    for (std::int64_t s = 0; s < count; ++s) apply_stage(stages[s], key, at, v, stages[s].operand);
    y[i] = v[0];
  }
}

void widen(std::int64_t n, const Bf16* x, float* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = widened(x[i]);
}

void narrow(std::int64_t n, const float* x, Bf16* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = narrowed(x[i]);
}

void uniform(std::int64_t begin, std::int64_t end, std::uint32_t op, const DropoutKey& key,
             float* y) {
  for (std::int64_t i = begin; i < end; ++i) y[i] = uniform_number(random_word(op, key, i));
}

}  // namespace es::gpu::scalar
