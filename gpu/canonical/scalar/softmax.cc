#include "gpu/canonical/attention_math.h"
#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/scalar/sum64.h"

namespace es::gpu::scalar {

void softmax_fwd(std::int64_t rows, std::int64_t c, const float* x, float* y) {
  for (std::int64_t r = 0; r < rows; ++r, x += c, y += c) {
    float max = -kInfinity;
    for (std::int64_t i = 0; i < c; ++i) max = max < x[i] ? x[i] : max;
    const float shift = softmax_shift(max);
    for (std::int64_t i = 0; i < c; ++i) y[i] = canonical_exp(x[i] - shift);
    const float scale = softmax_scale(sum64(c, y));
    for (std::int64_t i = 0; i < c; ++i) y[i] = y[i] * scale;
  }
}

void softmax_bwd(std::int64_t rows, std::int64_t c, const float* y, const float* dy, float* dx) {
  for (std::int64_t r = 0; r < rows; ++r, y += c, dy += c, dx += c) {
    // The products enter the sum by fma. dx may have the address of dy, because the sum is complete
    // before the first element is written.
    const float sum = sum64_products(c, dy, y);
    for (std::int64_t i = 0; i < c; ++i) dx[i] = y[i] * (dy[i] - sum);
  }
}

}  // namespace es::gpu::scalar
