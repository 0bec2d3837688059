#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu::scalar {
namespace {

// G2 up to 16,384 elements: 64 lanes, each a chain from +0, folded by halves. Missing elements of
// the last row of lanes are summands +0.
float sum64_chunk(std::int64_t n, const float* x) {
  float lanes[kSumLanes] = {};
  for (std::int64_t i = 0; i < round_up(n, kSumLanes); ++i) {
    lanes[i % kSumLanes] = lanes[i % kSumLanes] + (i < n ? x[i] : 0.0f);
  }
  for (std::int64_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] = lanes[lane] + lanes[lane + half];
  }
  return lanes[0];
}

// G2. Above 16,384 elements: SUM64 of the chunk results, which are added to their lanes as they
// come (n <= 2^28, so there is no third level).
float sum64(std::int64_t n, const float* x) {
  if (n <= kSumChunk) return sum64_chunk(n, x);
  float results[kSumLanes] = {};
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; i += kSumChunk, ++count) {
    const float result = sum64_chunk(smaller(kSumChunk, n - i), x + i);
    results[count % kSumLanes] = results[count % kSumLanes] + result;
  }
  return sum64_chunk(kSumLanes, results);
}

}  // namespace

void softmax_xent_fwd(std::int64_t rows, std::int64_t classes, const float* logits,
                      const std::int32_t* labels, float* probs, float* row_loss, float* mean_loss) {
  for (std::int64_t r = 0; r < rows; ++r, logits += classes, probs += classes) {
    float max = -kInfinity;
    for (std::int64_t i = 0; i < classes; ++i) max = max < logits[i] ? logits[i] : max;
    for (std::int64_t i = 0; i < classes; ++i) probs[i] = canonical_exp(logits[i] - max);
    const float sum = sum64(classes, probs);
    const float scale = 1.0f / sum;
    for (std::int64_t i = 0; i < classes; ++i) probs[i] = probs[i] * scale;
    row_loss[r] = canonical_log(sum) - (logits[labels[r]] - max);
  }
  *mean_loss = sum64(rows, row_loss) * recip(rows);
}

void softmax_xent_bwd(std::int64_t rows, std::int64_t classes, const float* probs,
                      const std::int32_t* labels, float* dlogits) {
  for (std::int64_t r = 0; r < rows; ++r, probs += classes, dlogits += classes) {
    for (std::int64_t i = 0; i < classes; ++i) {
      const float onehot = i == labels[r] ? 1.0f : 0.0f;
      dlogits[i] = (probs[i] - onehot) * recip(rows);
    }
  }
}

}  // namespace es::gpu::scalar
