#pragma once
// What softmax and attention have in common in all classes: two numbers of a row, and the addresses
// of the matrices of one head. The namespace is unnamed for the reason given in scalar_math.h.
#include "gpu/canonical/kernels.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu {
namespace {

// Returns what is subtracted from a row with this maximum before EXP. In a row whose elements are
// all -inf (all keys are masked), x - max would be NaN. +0 is subtracted instead, so that the
// exponentials are +0.
ES_HD inline float softmax_shift(float max) {
  return max == -kInfinity ? 0.0f : max;
}
// Returns the factor for the exponentials of a row with this sum. The sum is +0 only if all
// elements of the row are -inf; the probabilities are then +0.
ES_HD inline float softmax_scale(float sum) {
  return sum == 0.0f ? 0.0f : 1.0f / sum;
}

// The heads that an AttentionShape asks for are [first_head(), last_head()).
ES_HD inline std::int64_t first_head(const AttentionShape& s) {
  return s.head_begin;
}
ES_HD inline std::int64_t last_head(const AttentionShape& s) {
  return s.head_count == 0 ? s.heads : s.head_begin + s.head_count;
}

// Return the keys of a sequence, and the queries that a head of keys serves: those of its heads of
// queries, one head after the other. Query i of a head is that of token i mod tokens.
ES_HD inline std::int64_t keys_of(const AttentionShape& s) {
  return s.key_tokens == 0 ? s.tokens : s.key_tokens;
}
ES_HD inline std::int64_t queries_of(const AttentionShape& s) {
  return s.shared * s.tokens;
}

// The steps from sequence to sequence and from head to head, in floats: of a matrix with `rows`
// rows in each head that are `stride` floats apart.
struct HeadSteps {
  std::int64_t sequence, head;
};
ES_HD inline HeadSteps head_steps(const AttentionShape& s, std::int64_t rows, std::int64_t stride) {
  if (s.by_head) return {s.heads * rows * stride, rows * stride};
  return {rows * stride, s.head_dim};
}
ES_HD inline HeadSteps q_steps(const AttentionShape& s) {  // and of dq
  return head_steps(s, queries_of(s), s.qkv_stride);
}
ES_HD inline HeadSteps k_steps(const AttentionShape& s) {  // and of v, dk and dv
  return head_steps(s, keys_of(s), s.qkv_stride);
}
ES_HD inline HeadSteps y_steps(const AttentionShape& s) {  // and of dy
  return head_steps(s, queries_of(s), s.y_stride);
}

// Offsets of the matrices of sequence b and head h, in floats.
ES_HD inline std::int64_t q_offset(const AttentionShape& s, std::int64_t b, std::int64_t h) {
  return b * q_steps(s).sequence + h * q_steps(s).head;
}
ES_HD inline std::int64_t k_offset(const AttentionShape& s, std::int64_t b, std::int64_t h) {
  return b * k_steps(s).sequence + h * k_steps(s).head;
}
ES_HD inline std::int64_t y_offset(const AttentionShape& s, std::int64_t b, std::int64_t h) {
  return b * y_steps(s).sequence + h * y_steps(s).head;
}
// The number of the first dropout decision of the head: the offset of its probabilities, if all of
// them were stored.
ES_HD inline std::int64_t probs_offset(const AttentionShape& s, std::int64_t b, std::int64_t h) {
  return (b * s.heads + h) * queries_of(s) * keys_of(s);
}
// What a row keeps for the backward pass: softmax_shift() and softmax_scale().
constexpr std::int64_t kRowStats = 2;
ES_HD inline std::int64_t stats_offset(const AttentionShape& s, std::int64_t b, std::int64_t h) {
  return (b * s.heads + h) * queries_of(s) * kRowStats;
}

// --- Queries [begin, end) of a head, whose rows of scores are in memory together. They are called
// a strip. The keys [0, keys) take part: all of them, or those up to the last query; if the strip
// has queries of two heads, those of the last token.
struct Strip {
  std::int64_t begin, end, keys;
  ES_HD std::int64_t rows() const { return end - begin; }
};
// Returns the smallest n so that the queries [begin, end) see no key from n on; 0 without queries.
ES_HD inline std::int64_t keys_reached(const AttentionShape& s, std::int64_t begin,
                                       std::int64_t end) {
  if (begin >= end) return 0;
  if (!s.causal) return keys_of(s);
  const std::int64_t last = end - 1;
  const bool one_head = begin / s.tokens == last / s.tokens;
  return smaller(keys_of(s), one_head ? last % s.tokens + 1 : s.tokens);
}
ES_HD inline Strip strip_at(const AttentionShape& s, std::int64_t begin, std::int64_t rows) {
  const std::int64_t end = smaller(queries_of(s), begin + rows);
  return {begin, end, keys_reached(s, begin, end)};
}
// Keys [begin, end).
struct KeyRange {
  std::int64_t begin, end;
  ES_HD bool contains(std::int64_t key) const { return key >= begin && key < end; }
};
// Returns the keys that may have a score above -infinity: those below the length of the sequence,
// not after the query, and not before its first one.
ES_HD inline KeyRange keys_seen(const AttentionShape& s, const AttentionExtras& extras,
                                std::int64_t b, std::int64_t query) {
  const std::int64_t token = query % s.tokens;
  const std::int64_t keys = extras.length != nullptr ? extras.length[b] : keys_of(s);
  const std::int64_t begin = extras.first != nullptr ? extras.first[b * s.tokens + token] : 0;
  return {begin, s.causal ? smaller(keys, token + 1) : keys};
}
// Return the rows of the bias and of the mask for a query; nullptr: there is none.
ES_HD inline const float* bias_row(const AttentionShape& s, const AttentionExtras& extras,
                                   std::int64_t h, std::int64_t query) {
  if (extras.bias == nullptr) return nullptr;
  return extras.bias + (h * queries_of(s) + query) * keys_of(s);
}
ES_HD inline const float* mask_row(const AttentionShape& s, const AttentionExtras& extras,
                                   std::int64_t b, std::int64_t h, std::int64_t query) {
  if (s.masks == 0) return nullptr;
  const std::int64_t head = (h * s.shared + query / s.tokens) % s.mask_heads;
  const std::int64_t row = query % s.tokens % s.mask_rows;
  return extras.mask + ((b % s.masks * s.mask_heads + head) * s.mask_rows + row) * keys_of(s);
}

// --- The six products of a strip, each C = A B. Scores, probabilities and their gradients are
// matrices [rows][keys] whose rows are `stride` floats apart. Those of dk and dv are the part that
// the queries of the strip add to sums over all queries.
ES_HD inline GemmShape scores_product(const AttentionShape& s, const Strip& strip,
                                      std::int64_t stride) {  // q k^T
  return {.m = strip.rows(),
          .n = strip.keys,
          .k = s.head_dim,
          .a_row = s.qkv_stride,
          .a_col = 1,
          .b_row = 1,
          .b_col = s.qkv_stride,
          .c_row = stride,
          .c_col = 1};
}
ES_HD inline GemmShape dprobs_product(const AttentionShape& s, const Strip& strip,
                                      std::int64_t stride) {  // dy v^T
  GemmShape g = scores_product(s, strip, stride);
  g.a_row = s.y_stride;
  return g;
}
ES_HD inline GemmShape y_product(const AttentionShape& s, const Strip& strip,
                                 std::int64_t stride) {  // p' v
  return {.m = strip.rows(),
          .n = s.head_dim,
          .k = strip.keys,
          .a_row = stride,
          .a_col = 1,
          .b_row = s.qkv_stride,
          .b_col = 1,
          .c_row = s.y_stride,
          .c_col = 1};
}
ES_HD inline GemmShape dq_product(const AttentionShape& s, const Strip& strip,
                                  std::int64_t stride) {  // ds k
  GemmShape g = y_product(s, strip, stride);
  g.c_row = s.qkv_stride;
  return g;
}
ES_HD inline GemmShape dk_product(const AttentionShape& s, const Strip& strip,
                                  std::int64_t stride) {  // ds^T q
  return {.m = strip.keys,
          .n = s.head_dim,
          .k = strip.rows(),
          .a_row = 1,
          .a_col = stride,
          .b_row = s.qkv_stride,
          .b_col = 1,
          .c_row = s.qkv_stride,
          .c_col = 1};
}
ES_HD inline GemmShape dv_product(const AttentionShape& s, const Strip& strip,
                                  std::int64_t stride) {  // p'^T dy
  GemmShape g = dk_product(s, strip, stride);
  g.b_row = s.y_stride;
  return g;
}

// --- COLSUM (G3) over sequences that arrive one after the other. Level 0 contains the chain of the
// current run of 64 rows. Level l + 1 contains the chain of the results of level l.
ES_HD inline std::int64_t colsum_levels(std::int64_t rows) {
  std::int64_t levels = 1;  // the run results are summed at least once
  for (std::int64_t count = ceil_div(rows, kColumnRun); count > kColumnRun; ++levels) {
    count = ceil_div(count, kColumnRun);
  }
  return levels;
}
// Returns the number of levels that end with row `row`: the levels 0..n - 1 are then added to the
// level above them.
ES_HD inline std::int64_t colsum_finished(std::int64_t row, std::int64_t rows) {
  const std::int64_t levels = colsum_levels(rows);
  if (row + 1 == rows) return levels;
  std::int64_t finished = 0;
  for (std::int64_t n = row + 1; n % kColumnRun == 0 && finished < levels; n /= kColumnRun) {
    ++finished;
  }
  return finished;
}

}  // namespace
}  // namespace es::gpu
