#pragma once
// Attention, head by head: the matrices of one head stay in the caches, and q, k and v are read in
// place.
#include "gpu/canonical/vec/attention_rows.h"
#include "gpu/canonical/vec/gemm.h"

namespace es::gpu {
namespace {

// The rows of scores are padded, so that every row begins at a whole vector. The stored
// probabilities have no padding; a product reads them directly if there is no dropout.
struct ForwardProducts {
  explicit ForwardProducts(const AttentionShape& s)
      : scores(scores_product(s, padded_row(s))),
        y(y_product(s, drops(s) ? padded_row(s) : s.tokens)) {}
  std::int64_t floats() const { return larger(scores.floats(), y.floats()); }
  PreparedGemm scores, y;
};

struct BackwardProducts {
  explicit BackwardProducts(const AttentionShape& s)
      : dv(dv_product(s, drops(s) ? padded_row(s) : s.tokens)),
        dprobs(dprobs_product(s, padded_row(s))),
        dq(dq_product(s, padded_row(s))),
        dk(dk_product(s, padded_row(s))) {}
  std::int64_t floats() const {
    return larger(larger(dv.floats(), dprobs.floats()), larger(dq.floats(), dk.floats()));
  }
  PreparedGemm dv, dprobs, dq, dk;
};

inline std::size_t attention_workspace_floats(const AttentionShape& s) {
  const std::int64_t products = larger(ForwardProducts(s).floats(), BackwardProducts(s).floats());
  return static_cast<std::size_t>(HeadScratch::floats(s) + products);
}

inline void attention_fwd(const AttentionShape& s, const float* q, const float* k, const float* v,
                          const AttentionExtras& extras, const DropoutKey& key, float* y,
                          float* probs, float* ws) {
  const ForwardProducts products(s);
  const HeadScratch scratch(s, ws);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = first_head(s); h < last_head(s); ++h) {
      const std::int64_t qkv = qkv_offset(s, b, h), p = probs_offset(s, b, h);
      products.scores.run(q + qkv, k + qkv, nullptr, scratch.scores, scratch.end);
      head_softmax(s, score_terms(s, extras, b, h), HeadDropout(s, key, p, scratch), scratch,
                   probs + p);
      products.y.run(drops(s) ? scratch.kept : probs + p, v + qkv, nullptr, y + y_offset(s, b, h),
                     scratch.end);
    }
  }
}

// The addresses of the matrices of one sequence and head.
struct HeadGradients {
  const float *q, *k, *v, *probs, *dy;
  float *dq, *dk, *dv;
};

inline void head_bwd(const AttentionShape& s, const BackwardProducts& products,
                     const HeadDropout& dropout, const HeadGradients& head, bool sums,
                     const HeadScratch& scratch) {
  if (drops(s)) head_keep(s, dropout, scratch, head.probs);
  products.dv.run(drops(s) ? scratch.kept : head.probs, head.dy, nullptr, head.dv, scratch.end);
  products.dprobs.run(head.dy, head.v, nullptr, scratch.scores, scratch.end);
  const GradientRow row(s, dropout, head.probs, sums);
  for (std::int64_t r = 0; r < s.tokens; ++r) row.run(r, scratch);
  products.dq.run(scratch.scores, head.k, nullptr, head.dq, scratch.end);
  products.dk.run(scratch.scores, head.q, nullptr, head.dk, scratch.end);
}

inline void attention_bwd(const AttentionShape& s, const float* q, const float* k, const float* v,
                          const float* probs, const float* dy, const DropoutKey& key, float* dq,
                          float* dk, float* dv, float* dbias, float* ws) {
  const BackwardProducts products(s);
  const HeadScratch scratch(s, ws);
  const std::int64_t levels = colsum_levels(s.batch);
  for (std::int64_t h = first_head(s); h < last_head(s); ++h) {
    if (dbias != nullptr) zero_floats(scratch.sums, (levels + 1) * scratch.size);
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const std::int64_t at = qkv_offset(s, b, h), p = probs_offset(s, b, h);
      const HeadGradients head{q + at,  k + at,  v + at, probs + p, dy + y_offset(s, b, h),
                               dq + at, dk + at, dv + at};
      head_bwd(s, products, HeadDropout(s, key, p, scratch), head, dbias != nullptr, scratch);
      if (dbias != nullptr) finish_colsum_row(b, s.batch, scratch);
    }
    for (std::int64_t r = 0; r < s.tokens && dbias != nullptr; ++r) {
      copy_floats(dbias + (h * s.tokens + r) * s.tokens,
                  scratch.sums + levels * scratch.size + r * scratch.stride, s.tokens);
    }
  }
}

}  // namespace
}  // namespace es::gpu
