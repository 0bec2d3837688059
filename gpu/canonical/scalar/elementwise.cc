#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu::scalar {

void relu_fwd(std::int64_t n, const float* x, float* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = positive_part(x[i]);
}

void relu_bwd(std::int64_t n, const float* y, const float* dy, float* dx) {
  for (std::int64_t i = 0; i < n; ++i) dx[i] = keep_positive(dy[i], y[i]);
}

void add(std::int64_t n, const float* a, const float* b, float* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

void add_relu(std::int64_t n, const float* a, const float* b, float* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = positive_part(a[i] + b[i]);
}

void scale(std::int64_t n, const float* x, float factor, float* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

}  // namespace es::gpu::scalar
