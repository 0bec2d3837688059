#pragma once
#include "gpu/canonical/vec/elementwise.h"
#include "gpu/canonical/vec/lanes.h"

namespace es::gpu {
namespace {

// EXP of scalar_math.h, lane by lane.
inline Vec canonical_exp(Vec x) {
  x = clamp(x, set(kExpLowest), set(kExpHighest));
  const Vec magic = set(kExpMagic);
  const Vec n = sub(fused(x, set(kExpLog2E), magic), magic);
  Vec r = fused(n, set(-kExpLn2High), x);
  r = fused(n, set(-kExpLn2Low), r);
  Vec p = set(kExpPoly[4]);
  for (int i = 3; i >= 0; --i) p = fused(p, r, set(kExpPoly[i]));
  p = fused(p, r, set(1.0f));
  p = fused(p, r, set(1.0f));
  return times_power_of_two(p, n);
}

// G2 up to 16,384 elements. The lanes of SUM64 are the lanes of 64 / kWidth vectors; the masked
// tail loads +0 where the row is padded.
inline float sum64_chunk(std::int64_t n, const float* x) {
  constexpr int kVecs = kSumLanes / kWidth;
  Vec sum[kVecs];
  for (int v = 0; v < kVecs; ++v) sum[v] = zero();
  std::int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (int v = 0; v < kVecs; ++v) sum[v] = add(sum[v], load(x + i + v * kWidth));
  }
  for (int v = 0; v < kVecs && i < n; ++v, i += kWidth)
    sum[v] = add(sum[v], Part(n - i).load(x + i));
  for (int half = kVecs / 2; half > 0; half /= 2) {
    for (int v = 0; v < half; ++v) sum[v] = add(sum[v], sum[v + half]);
  }
  float lanes[kWidth];
  store(lanes, sum[0]);
  for (std::int64_t half = kWidth / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] = lanes[lane] + lanes[lane + half];
  }
  return lanes[0];
}

// G2. Above 16,384 elements: SUM64 of the chunk results, which are added to their lanes as they
// come (n <= 2^28, so there is no third level).
inline float sum64(std::int64_t n, const float* x) {
  if (n <= kSumChunk) return sum64_chunk(n, x);
  float results[kSumLanes] = {};
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; i += kSumChunk, ++count) {
    const float result = sum64_chunk(smaller(kSumChunk, n - i), x + i);
    results[count % kSumLanes] = results[count % kSumLanes] + result;
  }
  return sum64_chunk(kSumLanes, results);
}

inline float row_max(std::int64_t n, const float* x) {
  Vec best = set(-kInfinity);
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) best = larger_of(best, load(x + i));
  float lanes[kWidth];
  store(lanes, best);
  float max = -kInfinity;
  for (const float lane : lanes) max = max < lane ? lane : max;
  for (; i < n; ++i) max = max < x[i] ? x[i] : max;
  return max;
}

inline void softmax_xent_fwd(std::int64_t rows, std::int64_t classes, const float* logits,
                             const std::int32_t* labels, float* probs, float* row_loss,
                             float* mean_loss) {
  for (std::int64_t r = 0; r < rows; ++r, logits += classes, probs += classes) {
    const float max = row_max(classes, logits);
    for_vectors(classes, [&](std::int64_t i, auto at) {
      at.store(probs + i, canonical_exp(sub(at.load(logits + i), set(max))));
    });
    const float sum = sum64(classes, probs);
    scale(classes, probs, 1.0f / sum, probs);
    row_loss[r] = canonical_log(sum) - (logits[labels[r]] - max);
  }
  *mean_loss = sum64(rows, row_loss) * recip(rows);
}

inline void softmax_xent_bwd(std::int64_t rows, std::int64_t classes, const float* probs,
                             const std::int32_t* labels, float* dlogits) {
  for (std::int64_t r = 0; r < rows; ++r, probs += classes, dlogits += classes) {
    scale(classes, probs, recip(rows), dlogits);  // p - 0 is p
    dlogits[labels[r]] = (probs[labels[r]] - 1.0f) * recip(rows);
  }
}

}  // namespace
}  // namespace es::gpu
