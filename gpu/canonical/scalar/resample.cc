#include "gpu/canonical/scalar/scalar.h"

namespace es::gpu::scalar {

void upsample2_bwd(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, const float* dy,
                   float* dx) {
  for (std::int64_t pixel = 0; pixel < n * h * w; ++pixel) {
    // N and h count as one dimension: two rows of dy belong to each row of dx.
    const float* first = dy + (pixel / w * 2 * (2 * w) + pixel % w * 2) * c;
    const float* second = first + 2 * w * c;
    for (std::int64_t j = 0; j < c; ++j) {
      float sum = 0.0f;
      sum = sum + first[j];
      sum = sum + first[c + j];
      sum = sum + second[j];
      sum = sum + second[c + j];
      dx[pixel * c + j] = sum;
    }
  }
}

}  // namespace es::gpu::scalar
