#include "gpu/canonical/attention_math.h"
#include "gpu/canonical/random_math.h"
#include "gpu/canonical/scalar/scalar.h"

namespace es::gpu::scalar {
namespace {

// Completes the scores of one head after the product, in place: scale, bias, mask, length.
void finish_scores(const AttentionShape& s, const AttentionExtras& extras, std::int64_t b,
                   std::int64_t h, float* scores) {
  const std::int64_t t = s.tokens;
  const float* bias = extras.bias != nullptr ? extras.bias + h * t * t : nullptr;
  const float* mask = s.masks != 0 ? extras.mask + b % s.masks * t * t : nullptr;
  // Keys beyond the length of the sequence get the score -infinity, whose EXP is +0, so they take
  // part in the sum of the softmax without changing it.
  const std::int64_t keys = extras.length != nullptr ? extras.length[b] : t;
  for (std::int64_t i = 0; i < t * t; ++i) {
    scores[i] = scores[i] * s.scale;
    if (bias != nullptr) scores[i] = scores[i] + bias[i];
    if (mask != nullptr) scores[i] = scores[i] + mask[i];
    if (i % t >= keys) scores[i] = -kInfinity;
  }
}

// y[i] = decision begin + i keeps ? x[i] * factor : +0. Without dropout y = x.
void drop(const Dropout& dropout, const DropoutKey& key, std::int64_t begin, std::int64_t n,
          const float* x, float* y) {
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = dropout.threshold == 0
               ? x[i]
               : keep_scaled(keeps(dropout, key, begin + i), x[i], dropout.factor);
  }
}

// Adds row `row` of `rows` to the levels of a COLSUM. After the last row `highest`, the highest
// level, contains the result.
void colsum_row(std::int64_t row, std::int64_t rows, std::int64_t n, const float* x, float* levels,
                float* highest) {
  const auto level = [&](std::int64_t l) {
    return l == colsum_levels(rows) ? highest : levels + l * n;
  };
  for (std::int64_t i = 0; i < n; ++i) levels[i] = levels[i] + x[i];
  for (std::int64_t l = 0; l < colsum_finished(row, rows); ++l) {
    for (std::int64_t i = 0; i < n; ++i) {
      level(l + 1)[i] = level(l + 1)[i] + level(l)[i];
      level(l)[i] = 0.0f;
    }
  }
}

}  // namespace

std::size_t attention_workspace_floats(const AttentionShape& s) {
  // The dropped probabilities and the gradient of the scores need a matrix each, and COLSUM over
  // the batch needs one for each level below its result. The products need scratch memory for one
  // row.
  const std::int64_t matrices = 2 + colsum_levels(s.batch);
  return static_cast<std::size_t>(matrices * s.tokens * s.tokens + larger(s.tokens, s.head_dim));
}

void attention_fwd(const AttentionShape& s, const float* q, const float* k, const float* v,
                   const AttentionExtras& extras, const DropoutKey& key, float* y, float* probs,
                   float* ws) {
  const std::int64_t t = s.tokens;
  float *dropped = ws, *scratch = ws + t * t;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = first_head(s); h < last_head(s); ++h) {
      const std::int64_t qkv = qkv_offset(s, b, h), p = probs_offset(s, b, h);
      gemm(scores_product(s, s.tokens), q + qkv, k + qkv, nullptr, probs + p, scratch);
      finish_scores(s, extras, b, h, probs + p);
      softmax_fwd(t, t, probs + p, probs + p);
      // The probabilities are stored without dropout. The backward pass draws the same decisions
      // again, because they depend on the key and the element only.
      drop(s.dropout, key, p, t * t, probs + p, dropped);
      gemm(y_product(s, s.tokens), dropped, v + qkv, nullptr, y + y_offset(s, b, h), scratch);
    }
  }
}

void attention_bwd(const AttentionShape& s, const float* q, const float* k, const float* v,
                   const float* probs, const float* dy, const DropoutKey& key, float* dq, float* dk,
                   float* dv, float* dbias, float* ws) {
  const std::int64_t size = s.tokens * s.tokens, levels = colsum_levels(s.batch);
  float *dropped = ws, *ds = ws + size, *sums = ws + 2 * size, *scratch = sums + levels * size;
  for (std::int64_t h = first_head(s); h < last_head(s); ++h) {
    float* head_dbias = dbias != nullptr ? dbias + h * size : nullptr;
    for (std::int64_t i = 0; i < levels * size; ++i) sums[i] = 0.0f;
    for (std::int64_t i = 0; i < size && dbias != nullptr; ++i) head_dbias[i] = 0.0f;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const std::int64_t qkv = qkv_offset(s, b, h), p = probs_offset(s, b, h);
      const float* head_dy = dy + y_offset(s, b, h);
      drop(s.dropout, key, p, size, probs + p, dropped);
      gemm(dv_product(s, s.tokens), dropped, head_dy, nullptr, dv + qkv, scratch);
      gemm(dprobs_product(s, s.tokens), head_dy, v + qkv, nullptr, ds, scratch);
      drop(s.dropout, key, p, size, ds, ds);
      softmax_bwd(s.tokens, s.tokens, probs + p, ds, ds);
      // The gradient of the bias is a sum over the batch. The rows of this COLSUM, one for each
      // sequence, arrive one after the other and are added at once, so they need not be stored.
      if (dbias != nullptr) colsum_row(b, s.batch, size, ds, sums, head_dbias);
      // The bias was added after the scaling, so its gradient is taken before the scaling.
      scale(size, ds, s.scale, ds);
      gemm(dq_product(s, s.tokens), ds, k + qkv, nullptr, dq + qkv, scratch);
      gemm(dk_product(s, s.tokens), ds, q + qkv, nullptr, dk + qkv, scratch);
    }
  }
}

}  // namespace es::gpu::scalar
