#include "gpu/canonical/norm_math.h"
#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/scalar/sum64.h"
#include "gpu/canonical/shapes.h"

namespace es::gpu::scalar {

void layer_norm_fwd(std::int64_t rows, std::int64_t c, const float* x, const float* gamma,
                    const float* beta, float eps, float* y, float* mean, float* istd) {
  for (std::int64_t r = 0; r < rows; ++r, x += c, y += c) {
    const float m = sum64(c, x) * recip(c);
    // The deviations are taken from the mean that was rounded to binary32. The mean is stored, and
    // the backward pass uses the same bits.
    const float squares =
        sum64_steps(c, [=](std::int64_t i, float sum) { return fma(x[i] - m, x[i] - m, sum); });
    const float inverse = inverse_deviation(squares * recip(c), eps);
    for (std::int64_t i = 0; i < c; ++i) y[i] = fma((x[i] - m) * inverse, gamma[i], beta[i]);
    mean[r] = m;
    istd[r] = inverse;
  }
}

std::size_t layer_norm_bwd_workspace_floats(std::int64_t rows, std::int64_t c) {
  return static_cast<std::size_t>(2 * run_count(rows) * c);
}

void layer_norm_bwd(std::int64_t rows, std::int64_t c, std::int64_t run_begin, std::int64_t run_end,
                    const float* x, const float* dy, const float* mean, const float* istd,
                    const float* gamma, float* dx, float* ws) {
  float *products = ws, *sums = ws + run_count(rows) * c;
  // The gradients of gamma and beta are COLSUM over the rows. This phase leaves the result of each
  // run of 64 rows; colsum_finish() adds them.
  for (std::int64_t i = run_begin * c; i < run_end * c; ++i) products[i] = sums[i] = 0.0f;
  for (std::int64_t r = run_begin * kColumnRun; r < smaller(rows, run_end * kColumnRun); ++r) {
    const float *row = x + r * c, *dy_row = dy + r * c;
    const auto h = [&](std::int64_t i) { return (row[i] - mean[r]) * istd[r]; };
    const auto t = [&](std::int64_t i) { return dy_row[i] * gamma[i]; };
    const float c1 =
        sum64_steps(c, [&](std::int64_t i, float sum) { return sum + t(i); }) * recip(c);
    const float c2 =
        sum64_steps(c, [&](std::int64_t i, float sum) { return fma(t(i), h(i), sum); }) * recip(c);
    float* run_products = products + r / kColumnRun * c;
    float* run_sums = sums + r / kColumnRun * c;
    for (std::int64_t i = 0; i < c; ++i) {
      run_products[i] = fma(dy_row[i], h(i), run_products[i]);
      run_sums[i] = run_sums[i] + dy_row[i];
      dx[r * c + i] = layer_norm_input_gradient(t(i), h(i), istd[r], c1, c2);
    }
  }
}

}  // namespace es::gpu::scalar
