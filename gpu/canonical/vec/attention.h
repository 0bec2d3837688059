#pragma once
// Attention, head by head and strip by strip (attention_math.h): the rows of scores of a few
// queries take the place of the matrix of all scores, and stay in the caches. The keys and values
// of a head are copied once for all its strips.
#include "gpu/canonical/vec/attention_rows.h"
#include "gpu/canonical/vec/panel_product.h"

namespace es::gpu {
namespace {

// The workspace of one head. Parts that a pass does not use are never touched.
struct HeadMemory {
  HeadMemory(const AttentionShape& s, float* ws)
      : row(row_stride(s)), dim(round_up(s.head_dim, kWidth)), next_(ws) {
    const std::int64_t rows = strip_rows(s);
    scores = take(rows * row);
    slopes = take(rows * row);
    decisions = take(StripDropout::floats(s));
    by_key = take(panels_floats(s.head_dim, keys_of(s)));
    by_key_2 = take(panels_floats(s.head_dim, keys_of(s)));
    by_dim = take(panels_floats(keys_of(s), s.head_dim));
    queries = take(panels_floats(rows, s.head_dim));
    dy = take(panels_floats(rows, s.head_dim));
    // With one strip the sums over the queries are complete at once.
    const std::int64_t chains = queries_of(s) > rows ? keys_of(s) * dim : 0;
    dk = take(chains);
    dv = take(chains);
    sums = take(s.bias_gradient ? (colsum_levels(s.batch) + 1) * s.tokens * row : 0);
  }
  static std::int64_t floats(const AttentionShape& s) {
    HeadMemory memory(s, nullptr);
    return memory.taken_;
  }

  std::int64_t row, dim;  // floats between rows of scores, and between chains of keys
  float* scores;          // of a strip: scores, then probabilities after dropout
  float* slopes;          // of a strip: their gradients
  float* decisions;       // StripDropout
  // Panels: k as the right operand of the scores; v as that of the gradients of probabilities; v
  // or k as that of y or dq; q and dy of a strip.
  float *by_key, *by_key_2, *by_dim, *queries, *dy;
  float *dk, *dv;  // chains of the current chunk of queries [keys][dim]
  float* sums;     // levels of the COLSUM of dbias; the highest is the result

 private:
  float* take(std::int64_t floats) {
    floats = round_up(floats, 16);
    taken_ += floats;
    // No address is computed if only the sum is wanted.
    if (next_ == nullptr) return nullptr;
    float* const part = next_;
    next_ += floats;
    return part;
  }
  float* next_;
  std::int64_t taken_ = 0;
};

inline std::size_t attention_workspace_floats(const AttentionShape& s) {
  return static_cast<std::size_t>(HeadMemory::floats(s));
}

// Calls body(strip) for all strips of a head, in ascending order.
template <class Body>
inline void for_strips(const AttentionShape& s, Body body) {
  const std::int64_t rows = strip_rows(s);
  for (std::int64_t begin = 0; begin < queries_of(s); begin += rows) body(strip_at(s, begin, rows));
}
inline Strip all_queries(const AttentionShape& s) {
  return {0, queries_of(s), keys_of(s)};
}

inline void attention_fwd(const AttentionShape& s, const float* q, const float* k, const float* v,
                          const AttentionExtras& extras, const DropoutKey& key, float* y,
                          float* stats, float* ws) {
  const HeadMemory memory(s, ws);
  const std::int64_t t = keys_of(s), d = s.head_dim;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = first_head(s); h < last_head(s); ++h) {
      const std::int64_t at = q_offset(s, b, h), k_at = k_offset(s, b, h);
      pack_all_panels(scores_product(s, all_queries(s), memory.row), k + k_at, memory.by_key);
      pack_all_panels(y_product(s, all_queries(s), memory.row), v + k_at, memory.by_dim);
      for_strips(s, [&](const Strip& strip) {
        const PanelProduct scores{scores_product(s, strip, memory.row), d, t};
        scores.run(q + at + strip.begin * s.qkv_stride, memory.by_key,
                   {.c = memory.scores, .stride = memory.row});
        const StripDropout dropout(s, key, probs_offset(s, b, h), strip, memory.decisions);
        StripRows(s, extras, b, h, strip, dropout)
            .probabilities(memory.scores, stats + stats_offset(s, b, h));
        const PanelProduct values{y_product(s, strip, memory.row), t, d};
        values.run(memory.scores, memory.by_dim,
                   {.c = y + y_offset(s, b, h) + strip.begin * s.y_stride, .stride = s.y_stride});
      });
    }
  }
}

// The sums over the queries for the keys of a head: dk or dv. The strips of a chunk of 512 queries
// continue the chains of the chunk, which its last strip adds to the result.
struct KeySums {
  const AttentionShape& s;
  std::int64_t dim;
  float *chains, *out;

  // `product` is that of all keys of the strip.
  void add_strip(const Strip& strip, const GemmShape& product, const float* a,
                 const float* panels) const {
    const std::int64_t chunk = strip.begin / kDotChunk * kDotChunk;
    // Key j of a causal attention takes part from the strip of query j on, so the keys whose chains
    // have begun are the first ones, and so are those whose results have earlier chunks.
    const std::int64_t begun = keys_reached(s, chunk, strip.begin);
    const std::int64_t known = keys_reached(s, 0, chunk);
    const std::int64_t one = smaller(begun, known), other = larger(begun, known);
    for (const Span& keys : {Span{0, smaller(one, strip.keys)},
                             Span{one, smaller(other, strip.keys)}, Span{other, strip.keys}})
      add_keys(strip, product, a, panels, keys, keys.begin < begun, keys.begin < known);
    // The strip may be that of the first tokens of a head, after the last ones of another.
    if (!ends_chunk(strip)) return;
    for (std::int64_t j = strip.keys; j < begun; ++j) {
      float *const chain = chains + j * dim, *const result = out + j * s.qkv_stride;
      if (j >= known) zero_floats(result, s.head_dim);
      add_floats(s.head_dim, result, chain, result);
    }
  }

 private:
  bool ends_chunk(const Strip& strip) const {
    return strip.end == queries_of(s) || strip.end % kDotChunk == 0;
  }
  // The chains of these keys have begun (`continued`), and earlier chunks are in the result
  // (`later`).
  void add_keys(const Strip& strip, GemmShape product, const float* a, const float* panels,
                const Span& keys, bool continued, bool later) const {
    if (keys.size() <= 0) return;
    product.m = keys.size();
    const bool last = ends_chunk(strip);
    float* const chain = chains + keys.begin * dim;
    float* const result = out + keys.begin * s.qkv_stride;
    PanelProduct{product, strip.rows(), s.head_dim}.run(a + keys.begin * product.a_row, panels,
                                                        {.c = last ? result : chain,
                                                         .stride = last ? s.qkv_stride : dim,
                                                         .start = continued ? chain : nullptr,
                                                         .start_stride = dim,
                                                         .add = last && later});
  }
};

// The addresses of the matrices of one sequence and head.
struct HeadGradients {
  std::int64_t b, h;
  const float *q, *k, *v, *stats, *dy;
  float *dq, *dk, *dv;
};

inline void head_bwd(const AttentionShape& s, const AttentionExtras& extras, const DropoutKey& key,
                     const HeadGradients& head, const HeadMemory& memory) {
  const std::int64_t t = keys_of(s), d = s.head_dim;
  pack_all_panels(scores_product(s, all_queries(s), memory.row), head.k, memory.by_key);
  pack_all_panels(dprobs_product(s, all_queries(s), memory.row), head.v, memory.by_key_2);
  pack_all_panels(dq_product(s, all_queries(s), memory.row), head.k, memory.by_dim);
  const KeySums dk{s, memory.dim, memory.dk, head.dk}, dv{s, memory.dim, memory.dv, head.dv};
  for_strips(s, [&](const Strip& strip) {
    const float *q = head.q + strip.begin * s.qkv_stride, *dy = head.dy + strip.begin * s.y_stride;
    const PanelProduct scores{scores_product(s, strip, memory.row), d, t};
    scores.run(q, memory.by_key, {.c = memory.scores, .stride = memory.row});
    const PanelProduct dprobs{dprobs_product(s, strip, memory.row), d, t};
    dprobs.run(dy, memory.by_key_2, {.c = memory.slopes, .stride = memory.row});
    const StripDropout dropout(s, key, probs_offset(s, head.b, head.h), strip, memory.decisions);
    StripRows(s, extras, head.b, head.h, strip, dropout)
        .gradients(memory.scores, memory.slopes, head.stats,
                   s.bias_gradient ? memory.sums + strip.begin * memory.row : nullptr);
    const PanelProduct dq{dq_product(s, strip, memory.row), t, d};
    dq.run(memory.slopes, memory.by_dim,
           {.c = head.dq + strip.begin * s.qkv_stride, .stride = s.qkv_stride});
    const GemmShape dk_part = dk_product(s, strip, memory.row);
    const GemmShape dv_part = dv_product(s, strip, memory.row);
    pack_all_panels(dk_part, q, memory.queries);
    pack_all_panels(dv_part, dy, memory.dy);
    dv.add_strip(strip, dv_part, memory.scores, memory.dy);
    dk.add_strip(strip, dk_part, memory.slopes, memory.queries);
  });
}

// Ends row `row` of `rows` of a COLSUM; the row is already in level 0.
inline void finish_colsum_row(std::int64_t row, std::int64_t rows, std::int64_t size, float* sums) {
  for (std::int64_t l = 0; l < colsum_finished(row, rows); ++l) {
    float *level = sums + l * size, *above = level + size;
    add_floats(size, above, level, above);
    zero_floats(level, size);
  }
}

inline void attention_bwd(const AttentionShape& s, const float* q, const float* k, const float* v,
                          const AttentionExtras& extras, const float* stats, const float* dy,
                          const DropoutKey& key, float* dq, float* dk, float* dv, float* dbias,
                          float* ws) {
  const HeadMemory memory(s, ws);
  const std::int64_t levels = colsum_levels(s.batch), size = s.tokens * memory.row;
  for (std::int64_t h = first_head(s); h < last_head(s); ++h) {
    if (s.bias_gradient) zero_floats(memory.sums, (levels + 1) * size);
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const std::int64_t at = q_offset(s, b, h), k_at = k_offset(s, b, h);
      const HeadGradients head{b,
                               h,
                               q + at,
                               k + k_at,
                               v + k_at,
                               stats + stats_offset(s, b, h),
                               dy + y_offset(s, b, h),
                               dq + at,
                               dk + k_at,
                               dv + k_at};
      head_bwd(s, extras, key, head, memory);
      if (s.bias_gradient) finish_colsum_row(b, s.batch, size, memory.sums);
    }
    for (std::int64_t r = 0; r < s.tokens && s.bias_gradient; ++r) {
      copy_floats(dbias + (h * s.tokens + r) * keys_of(s),
                  memory.sums + levels * size + r * memory.row, keys_of(s));
    }
  }
}

}  // namespace
}  // namespace es::gpu
