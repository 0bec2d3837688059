#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/scalar/sum64.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu::scalar {

void sgd(std::int64_t n, const float* grad_sum, float grad_scale, float lr, float momentum,
         float weight_decay, bool nesterov, float* p, float* v) {
  for (std::int64_t i = 0; i < n; ++i) {
    float step = fused(weight_decay, p[i], grad_sum[i] * grad_scale);
    if (v != nullptr) {
      v[i] = fused(momentum, v[i], step);
      step = nesterov ? fused(momentum, v[i], step) : v[i];
    }
    p[i] = fused(-lr, step, p[i]);
  }
}

void adam(std::int64_t n, const float* grad_sum, float grad_scale, const AdamStep& s, float* p,
          float* m, float* v) {
  for (std::int64_t i = 0; i < n; ++i) {
    float g = grad_sum[i] * grad_scale;
    if (s.weight_decay != 0.0f) g = fused(s.weight_decay, p[i], g);
    m[i] = fused(s.beta1, m[i], s.one_minus_beta1 * g);
    v[i] = fused(s.beta2, v[i], s.one_minus_beta2 * (g * g));
    const float root = fused(square_root(v[i]), s.rsqrt_bc2, s.epsilon);
    p[i] = fused(-s.lr_over_bc1, m[i] / root, p[i] * s.decay);  // a decay of 1 changes nothing
  }
}

float sum_of_squares(std::int64_t n, const float* x) {
  return sum64_products(n, x, x);
}

bool any_non_finite(std::int64_t n, const float* x) {
  bool found = false;
  for (std::int64_t i = 0; i < n; ++i) found = found || !(absolute(x[i]) < kInfinity);
  return found;
}

}  // namespace es::gpu::scalar
