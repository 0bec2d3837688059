#pragma once
// The update of one parameter. The namespace is unnamed for the reason given in scalar_math.h.
#include "gpu/canonical/kernels.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu {
namespace {

struct SgdStep {
  float grad_scale, lr, momentum, weight_decay;
  bool nesterov;
};

// v == nullptr: no momentum.
ES_HD inline void sgd_update(const SgdStep& s, float grad_sum, float* p, float* v) {
  float step = fma(s.weight_decay, *p, grad_sum * s.grad_scale);
  if (v != nullptr) {
    *v = fma(s.momentum, *v, step);
    step = s.nesterov ? fma(s.momentum, *v, step) : *v;
  }
  *p = fma(-s.lr, step, *p);
}

ES_HD inline void adam_update(const AdamStep& s, float grad_scale, float grad_sum, float* p,
                              float* m, float* v) {
  float g = grad_sum * grad_scale;
  if (s.weight_decay != 0.0f) g = fma(s.weight_decay, *p, g);
  *m = fma(s.beta1, *m, s.one_minus_beta1 * g);
  *v = fma(s.beta2, *v, s.one_minus_beta2 * (g * g));
  const float root = fma(sqrt(*v), s.rsqrt_bc2, s.epsilon);
  *p = fma(-s.lr_over_bc1, *m / root, *p * s.decay);  // decay = 1 changes nothing
}

}  // namespace
}  // namespace es::gpu
