#include "gpu/canonical/attention_math.h"
#include "gpu/canonical/random_math.h"
#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/scalar/sum64.h"

namespace es::gpu::scalar {
namespace {

// Computes the scores of a strip of one query.
void row_scores(const AttentionShape& s, const AttentionExtras& extras, std::int64_t b,
                std::int64_t h, const Strip& row, const float* q, const float* k, float* scores,
                float* scratch) {
  gemm(scores_product(s, row, keys_of(s)), q, k, nullptr, scores, scratch);
  const float* const bias = bias_row(s, extras, h, row.begin);
  const float* const mask = mask_row(s, extras, b, h, row.begin);
  // Keys that are not seen get the score -infinity, whose EXP is +0, so they take part in the sum
  // of the softmax without changing it.
  const KeyRange seen = keys_seen(s, extras, b, row.begin);
  for (std::int64_t j = 0; j < row.keys; ++j) {
    scores[j] = scores[j] * s.scale;
    if (bias != nullptr) scores[j] = scores[j] + bias[j];
    if (mask != nullptr) scores[j] = scores[j] + mask[j];
    if (!seen.contains(j)) scores[j] = -kInfinity;
  }
}

// Writes what the probabilities of a row are computed from.
void row_stats(std::int64_t n, const float* scores, float* stats) {
  float max = -kInfinity;
  for (std::int64_t j = 0; j < n; ++j) max = max < scores[j] ? scores[j] : max;
  // The addition of +0 removes the sign of a zero, which depends on the order of comparisons.
  const float shift = softmax_shift(max) + 0.0f;
  stats[0] = shift;
  stats[1] = softmax_scale(sum64_steps(
      n, [=](std::int64_t j, float sum) { return sum + canonical_exp(scores[j] - shift); }));
}

void row_probabilities(std::int64_t n, const float* stats, float* x) {
  for (std::int64_t j = 0; j < n; ++j) x[j] = canonical_exp(x[j] - stats[0]) * stats[1];
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

// Adds a part of row `row` of `rows` to the levels of a COLSUM, which are `size` floats apart.
// After the last row `highest`, the highest level, contains the result.
void colsum_row(std::int64_t row, std::int64_t rows, std::int64_t n, std::int64_t size,
                const float* x, float* levels, float* highest) {
  const auto level = [&](std::int64_t l) {
    return l == colsum_levels(rows) ? highest : levels + l * size;
  };
  for (std::int64_t i = 0; i < n; ++i) levels[i] = levels[i] + x[i];
  for (std::int64_t l = 0; l < colsum_finished(row, rows); ++l) {
    for (std::int64_t i = 0; i < n; ++i) {
      level(l + 1)[i] = level(l + 1)[i] + level(l)[i];
      level(l)[i] = 0.0f;
    }
  }
}

// DOT over the queries for the rows of dk or dv of a head: the chains of all keys advance together,
// one query at a time.
class KeySums {
 public:
  // `chains` has keys * head_dim floats of scratch memory.
  KeySums(const AttentionShape& s, float* chains, float* out) : s_(s), chains_(chains), out_(out) {
    for (std::int64_t i = 0; i < keys_of(s) * s.head_dim; ++i) chains_[i] = 0.0f;
    for (std::int64_t j = 0; j < keys_of(s); ++j)
      for (std::int64_t e = 0; e < s.head_dim; ++e) out_[j * s.qkv_stride + e] = 0.0f;
  }

  // Adds factor[j] times the row of the query to the sum of each key j that takes part.
  void step(const Strip& query, const float* factor, const float* row) {
    for (std::int64_t j = 0; j < query.keys; ++j) {
      float* const chain = chains_ + j * s_.head_dim;
      for (std::int64_t e = 0; e < s_.head_dim; ++e) chain[e] = fma(factor[j], row[e], chain[e]);
    }
    if (query.end % kDotChunk == 0 || query.end == queries_of(s_)) end_chunk();
  }

 private:
  void end_chunk() {
    for (std::int64_t j = 0; j < keys_of(s_); ++j) {
      for (std::int64_t e = 0; e < s_.head_dim; ++e) {
        float &out = out_[j * s_.qkv_stride + e], &chain = chains_[j * s_.head_dim + e];
        out = out + chain;
        chain = 0.0f;
      }
    }
  }

  const AttentionShape& s_;
  float *chains_, *out_;
};

// The workspace of a head in the backward pass. COLSUM over the batch has a matrix for each level
// below its result.
struct Workspace {
  Workspace(const AttentionShape& s, float* ws)
      : probs(ws),
        dropped(probs + keys_of(s)),
        ds(dropped + keys_of(s)),
        dk(ds + keys_of(s)),
        dv(dk + keys_of(s) * s.head_dim),
        sums(dv + keys_of(s) * s.head_dim),
        scratch(sums + sums_floats(s)) {}
  static std::int64_t sums_floats(const AttentionShape& s) {
    return s.bias_gradient ? colsum_levels(s.batch) * s.tokens * keys_of(s) : 0;
  }
  static std::int64_t floats(const AttentionShape& s) {
    return (3 + 2 * s.head_dim) * keys_of(s) + sums_floats(s) + larger(keys_of(s), s.head_dim);
  }
  float *probs, *dropped, *ds, *dk, *dv, *sums;
  float* scratch;  // for the products
};

// The addresses of one sequence and head.
struct Head {
  std::int64_t b, h;
  const float *q, *k, *v, *stats, *dy;
  float *dq, *dk, *dv, *dbias;
};

void head_bwd(const AttentionShape& s, const AttentionExtras& extras, const DropoutKey& key,
              const Head& head, const Workspace& w) {
  const std::int64_t t = keys_of(s);
  KeySums dk(s, w.dk, head.dk), dv(s, w.dv, head.dv);
  for (std::int64_t i = 0; i < queries_of(s); ++i) {
    const Strip row = strip_at(s, i, 1);
    const std::int64_t n = row.keys, decision = probs_offset(s, head.b, head.h) + i * t;
    const float *q = head.q + i * s.qkv_stride, *dy = head.dy + i * s.y_stride;
    row_scores(s, extras, head.b, head.h, row, q, head.k, w.probs, w.scratch);
    row_probabilities(n, head.stats + i * kRowStats, w.probs);
    drop(s.dropout, key, decision, n, w.probs, w.dropped);
    dv.step(row, w.dropped, dy);
    gemm(dprobs_product(s, row, t), dy, head.v, nullptr, w.ds, w.scratch);
    drop(s.dropout, key, decision, n, w.ds, w.ds);
    softmax_bwd(1, n, w.probs, w.ds, w.ds);
    // The gradient of the bias is a sum over the batch. The rows of this COLSUM, one for each
    // sequence, arrive one after the other and are added at once, so they need not be stored.
    if (head.dbias != nullptr)
      colsum_row(head.b, s.batch, n, s.tokens * t, w.ds, w.sums + i * t, head.dbias + i * t);
    // The bias was added after the scaling, so its gradient is taken before the scaling.
    scale(n, w.ds, s.scale, w.ds);
    gemm(dq_product(s, row, t), w.ds, head.k, nullptr, head.dq + i * s.qkv_stride, w.scratch);
    dk.step(row, w.ds, q);
  }
}

}  // namespace

std::size_t attention_workspace_floats(const AttentionShape& s) {
  return static_cast<std::size_t>(Workspace::floats(s));
}

void attention_fwd(const AttentionShape& s, const float* q, const float* k, const float* v,
                   const AttentionExtras& extras, const DropoutKey& key, float* y, float* stats,
                   float* ws) {
  const std::int64_t keys = keys_of(s);
  float *probs = ws, *scratch = ws + keys;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = first_head(s); h < last_head(s); ++h) {
      const std::int64_t q_at = q_offset(s, b, h), k_at = k_offset(s, b, h);
      for (std::int64_t i = 0; i < queries_of(s); ++i) {
        const Strip row = strip_at(s, i, 1);
        float* const kept = stats + stats_offset(s, b, h) + i * kRowStats;
        row_scores(s, extras, b, h, row, q + q_at + i * s.qkv_stride, k + k_at, probs, scratch);
        row_stats(row.keys, probs, kept);
        row_probabilities(row.keys, kept, probs);
        // The backward pass draws the same decisions again, because they depend on the key and the
        // element only.
        drop(s.dropout, key, probs_offset(s, b, h) + i * keys, row.keys, probs, probs);
        gemm(y_product(s, row, keys), probs, v + k_at, nullptr,
             y + y_offset(s, b, h) + i * s.y_stride, scratch);
      }
    }
  }
}

void attention_bwd(const AttentionShape& s, const float* q, const float* k, const float* v,
                   const AttentionExtras& extras, const float* stats, const float* dy,
                   const DropoutKey& key, float* dq, float* dk, float* dv, float* dbias,
                   float* ws) {
  const std::int64_t size = s.tokens * keys_of(s);
  const Workspace w(s, ws);
  for (std::int64_t h = first_head(s); h < last_head(s); ++h) {
    float* const head_dbias = dbias != nullptr ? dbias + h * size : nullptr;
    for (std::int64_t i = 0; i < Workspace::sums_floats(s); ++i) w.sums[i] = 0.0f;
    for (std::int64_t i = 0; i < size && dbias != nullptr; ++i) head_dbias[i] = 0.0f;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const std::int64_t q_at = q_offset(s, b, h), k_at = k_offset(s, b, h);
      head_bwd(s, extras, key,
               {b, h, q + q_at, k + k_at, v + k_at, stats + stats_offset(s, b, h),
                dy + y_offset(s, b, h), dq + q_at, dk + k_at, dv + k_at, head_dbias},
               w);
    }
  }
}

}  // namespace es::gpu::scalar
