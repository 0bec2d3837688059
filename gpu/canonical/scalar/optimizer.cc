#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/scalar/sum64.h"
#include "gpu/canonical/update_math.h"

namespace es::gpu::scalar {

void sgd(std::int64_t n, const float* grad_sum, float grad_scale, float lr, float momentum,
         float weight_decay, bool nesterov, float* p, float* v) {
  const SgdStep step{grad_scale, lr, momentum, weight_decay, nesterov};
  for (std::int64_t i = 0; i < n; ++i) {
    sgd_update(step, grad_sum[i], p + i, v == nullptr ? nullptr : v + i);
  }
}

void adam(std::int64_t n, const float* grad_sum, float grad_scale, const AdamStep& s, float* p,
          float* m, float* v) {
  for (std::int64_t i = 0; i < n; ++i) {
    adam_update(s, grad_scale, grad_sum[i], p + i, m + i, v + i);
  }
}

float sum_of_squares(std::int64_t n, const float* x) {
  return sum64_products(n, x, x);
}

bool any_non_finite(std::int64_t n, const float* x) {
  // The negated comparison below is true for a NaN, too.
  bool found = false;
  for (std::int64_t i = 0; i < n; ++i) found = found || !(absolute(x[i]) < kInfinity);
  return found;
}

}  // namespace es::gpu::scalar
