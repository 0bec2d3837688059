// Attention: batched products (gemm.h), and the operations on the rows of scores between them. A
// run of 32 threads processes a row.
#include "gpu/canonical/attention_math.h"
#include "gpu/canonical/random_math.h"
#include "gpu/cuda/kernels/columns.h"
#include "gpu/cuda/kernels/gemm.h"
#include "gpu/cuda/kernels/map.h"
#include "gpu/cuda/kernels/rows.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// The queries of a strip (attention_math.h): one chunk of the products over the queries, so that
// every strip adds its result to dk and dv. With the gradient of a bias, which is as large as the
// matrices of all queries, a strip has all of them.
std::int64_t strip_rows(const AttentionShape& s) {
  return s.bias_gradient ? s.tokens : smaller(queries_of(s), kDotChunk);
}
// The floats of one sequence in a matrix of the workspace: its heads follow each other.
std::int64_t sequence_floats(const AttentionShape& s) {
  return s.heads * strip_rows(s) * keys_of(s);
}
// The sequences that are computed at once. The gradient of a bias is a sum over all of them.
std::int64_t group_sequences(const AttentionShape& s) {
  constexpr std::int64_t kFloats = 64 * 1024 * 1024;
  if (s.bias_gradient) return s.batch;
  return smaller(s.batch, larger(1, kFloats / sequence_floats(s)));
}

// The sequences [begin, begin + count) and a strip of their queries.
struct Part {
  std::int64_t begin, count;
  Strip strip;
  std::int64_t rows;  // of a head in the workspace; at least those of the strip
};
template <class Body>
void for_parts(const AttentionShape& s, Body body) {
  const std::int64_t group = group_sequences(s), rows = strip_rows(s);
  for (std::int64_t b = 0; b < s.batch; b += group) {
    for (std::int64_t i = 0; i < queries_of(s); i += rows)
      body(Part{b, smaller(group, s.batch - b), strip_at(s, i, rows), rows});
  }
}

// The steps between the matrices of heads.
BatchSteps batch_steps(const HeadSteps& steps) {
  return {.outer = steps.sequence, .inner = steps.head};
}
BatchSteps score_steps(const AttentionShape& s) {
  return {.outer = sequence_floats(s), .inner = strip_rows(s) * keys_of(s)};
}
MatrixBatch heads(const AttentionShape& s, std::int64_t sequences, const BatchSteps& a,
                  const BatchSteps& b, const BatchSteps& c) {
  return {.count = sequences * s.heads, .inner = s.heads, .a = a, .b = b, .c = c};
}

// A row of scores of a part, and its terms.
struct ScoreRow {
  std::int64_t place;     // in the workspace
  std::int64_t decision;  // the number of the first dropout decision
  std::int64_t stats;
  const float *bias, *mask;
  KeyRange seen;
  float scale;

  // Returns the score of key i, given its product.
  ES_HD float score(std::int64_t i, float product) const {
    float score = product * scale;
    if (bias != nullptr) score = score + bias[i];
    if (mask != nullptr) score = score + mask[i];
    return seen.contains(i) ? score : -kInfinity;
  }
};
ES_HD ScoreRow score_row(const AttentionShape& s, const AttentionExtras& extras, const Part& part,
                         std::int64_t row) {
  const std::int64_t head = row / part.strip.rows(), r = row % part.strip.rows();
  const std::int64_t b = part.begin + head / s.heads, h = head % s.heads;
  const std::int64_t query = part.strip.begin + r;
  return {(head * part.rows + r) * keys_of(s),
          probs_offset(s, b, h) + query * keys_of(s),
          stats_offset(s, b, h) + query * kRowStats,
          bias_row(s, extras, h, query),
          mask_row(s, extras, b, h, query),
          keys_seen(s, extras, b, query),
          s.scale};
}
ES_HD std::int64_t part_rows(const AttentionShape& s, const Part& part) {
  return part.count * s.heads * part.strip.rows();
}

// Turns the products of a part into probabilities after dropout, in place.
struct ProbabilityRows {
  static constexpr unsigned kThreads = kRowThreads;
  using Shared = OnlyRuns;
  AttentionShape s;
  AttentionExtras extras;
  Part part;
  const DropoutKey* key;
  float *scores, *stats;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    if (my_row(block) >= part_rows(s, part)) return;
    const ScoreRow row = score_row(s, extras, part, my_row(block));
    const std::int64_t keys = part.strip.keys;
    float* const p = scores + row.place;
    write_row(block, keys, p, [&](std::int64_t i) { return row.score(i, p[i]); });
    // Each thread reads again the elements that it wrote itself, so no barrier is needed. SUM64 and
    // the maximum use the same distribution: thread t has the elements t, t + 32, t + 64, ...
    // The addition of +0 removes the sign of a zero, which depends on the order of comparisons.
    const float shift = softmax_shift(row_max(block, keys, p)) + 0.0f;
    const float scale = softmax_scale(run_sum64(
        block, keys, [&](std::int64_t i, float sum) { return sum + canonical_exp(p[i] - shift); }));
    if (block.thread() % 32 == 0) {
      stats[row.stats] = shift;
      stats[row.stats + 1] = scale;
    }
    const DropoutKey drawn = s.dropout.threshold == 0 ? DropoutKey() : *key;
    write_row(block, keys, p, [&](std::int64_t i) {
      const float kept = canonical_exp(p[i] - shift) * scale;
      if (s.dropout.threshold == 0) return kept;
      return keep_scaled(keeps(s.dropout, drawn, row.decision + i), kept, s.dropout.factor);
    });
  }
};

// Turns the products of a part into probabilities after dropout again, and the gradients of these
// into those of the scores, before or after the scale (`scaled`); both in place.
struct GradientRows {
  static constexpr unsigned kThreads = kRowThreads;
  using Shared = OnlyRuns;
  AttentionShape s;
  AttentionExtras extras;
  Part part;
  const DropoutKey* key;
  const float* stats;
  float *scores, *gradients;
  bool scaled;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    if (my_row(block) >= part_rows(s, part)) return;
    const ScoreRow row = score_row(s, extras, part, my_row(block));
    const std::int64_t keys = part.strip.keys;
    const bool drops = s.dropout.threshold != 0;
    float *const p = scores + row.place, *const d = gradients + row.place;
    const float shift = stats[row.stats], scale = stats[row.stats + 1];
    const DropoutKey drawn = drops ? *key : DropoutKey();
    const auto dropped = [&](std::int64_t i, float x) {
      return drops ? keep_scaled(keeps(s.dropout, drawn, row.decision + i), x, s.dropout.factor)
                   : x;
    };
    write_row(block, keys, p,
              [&](std::int64_t i) { return canonical_exp(row.score(i, p[i]) - shift) * scale; });
    if (drops) write_row(block, keys, d, [&](std::int64_t i) { return dropped(i, d[i]); });
    const float total =
        run_sum64(block, keys, [&](std::int64_t i, float sum) { return fma(d[i], p[i], sum); });
    write_row(block, keys, d, [&](std::int64_t i) {
      const float gradient = p[i] * (d[i] - total);
      if (drops) p[i] = dropped(i, p[i]);
      return scaled ? gradient * s.scale : gradient;
    });
  }
};

struct TimesFactor {
  float factor;
  ES_HD float operator()(float a, float) const { return a * factor; }
};

// The workspace: the rows of scores of a part; in the backward pass also their gradients; behind
// them the workspace of the products and of the column sums of dbias.
struct Workspace {
  float *scores, *gradients, *rest;
};
std::int64_t matrix_floats(const AttentionShape& s) {
  // The matrices are padded to cache lines, so that all of them allow packs.
  return round_up(group_sequences(s) * sequence_floats(s), 16);
}
Workspace workspace(const AttentionShape& s, float* ws) {
  return {ws, ws + matrix_floats(s), ws + 2 * matrix_floats(s)};
}

std::size_t attention_workspace_floats(const AttentionShape& s) {
  std::int64_t rest = s.bias_gradient ? level_rows(s.batch) * sequence_floats(s) : 0;
  // A product of fewer rows may need more, because more of its chunks are computed at once.
  for_parts(s, [&](const Part& part) {
    for (const GemmShape& product :
         {scores_product(s, part.strip, keys_of(s)), y_product(s, part.strip, keys_of(s)),
          dk_product(s, part.strip, keys_of(s))}) {
      const MatrixBatch batch = heads(s, part.count, {}, {}, {});
      rest = larger(rest, static_cast<std::int64_t>(matrices_workspace_floats(product, batch)));
    }
  });
  return static_cast<std::size_t>(2 * matrix_floats(s) + rest);
}

void attention_fwd(Stream stream, const AttentionShape& s, const float* q, const float* k,
                   const float* v, const AttentionExtras& extras, const DropoutKey* key, float* y,
                   float* stats, float* ws) {
  const Workspace w = workspace(s, ws);
  const BatchSteps scores = score_steps(s), of_q = batch_steps(q_steps(s));
  const BatchSteps of_k = batch_steps(k_steps(s)), of_y = batch_steps(y_steps(s));
  for_parts(s, [&](const Part& part) {
    const std::int64_t at = k_offset(s, part.begin, 0), y_at = y_offset(s, part.begin, 0);
    const std::int64_t first = part.strip.begin;
    multiply_matrices(
        stream, scores_product(s, part.strip, keys_of(s)), heads(s, part.count, of_q, of_k, scores),
        q + q_offset(s, part.begin, 0) + first * s.qkv_stride, k + at, nullptr, w.scores, w.rest);
    launch(stream, {.x = blocks_of_rows(part_rows(s, part))},
           ProbabilityRows{s, extras, part, key, w.scores, stats});
    multiply_matrices(stream, y_product(s, part.strip, keys_of(s)),
                      heads(s, part.count, scores, of_k, of_y), w.scores, v + at, nullptr,
                      y + y_at + first * s.y_stride, w.rest);
  });
}

// Adds the products of a strip to the sums over the queries, dk or dv. Keys that no earlier strip
// has reached begin with +0.
void add_to_keys(Stream stream, const AttentionShape& s, const Part& part, GemmShape product,
                 const MatrixBatch& batch, const float* a, const float* b, float* c, float* ws) {
  const std::int64_t known = smaller(keys_reached(s, 0, part.strip.begin), part.strip.keys);
  const auto add = [&](std::int64_t begin, std::int64_t end, bool earlier) {
    if (begin == end) return;
    product.m = end - begin;
    product.add = earlier;
    multiply_matrices(stream, product, batch, a + begin, b, nullptr, c + begin * s.qkv_stride, ws);
  };
  add(0, known, true);
  add(known, part.strip.keys, false);
}

void attention_bwd(Stream stream, const AttentionShape& s, const float* q, const float* k,
                   const float* v, const AttentionExtras& extras, const float* stats,
                   const float* dy, const DropoutKey* key, float* dq, float* dk, float* dv,
                   float* dbias, float* ws) {
  const Workspace w = workspace(s, ws);
  const BatchSteps scores = score_steps(s), of_q = batch_steps(q_steps(s));
  const BatchSteps of_k = batch_steps(k_steps(s)), of_y = batch_steps(y_steps(s));
  for_parts(s, [&](const Part& part) {
    const Strip& strip = part.strip;
    const std::int64_t at = k_offset(s, part.begin, 0), row = keys_of(s);
    const std::int64_t queries = q_offset(s, part.begin, 0) + strip.begin * s.qkv_stride;
    const float* const dy_at = dy + y_offset(s, part.begin, 0) + strip.begin * s.y_stride;
    multiply_matrices(stream, scores_product(s, strip, row),
                      heads(s, part.count, of_q, of_k, scores), q + queries, k + at, nullptr,
                      w.scores, w.rest);
    multiply_matrices(stream, dprobs_product(s, strip, row),
                      heads(s, part.count, of_y, of_k, scores), dy_at, v + at, nullptr, w.gradients,
                      w.rest);
    launch(stream, {.x = blocks_of_rows(part_rows(s, part))},
           // Without dbias the kernel scales the gradients at once, which saves a pass over them.
           GradientRows{s, extras, part, key, stats, w.scores, w.gradients, dbias == nullptr});
    add_to_keys(stream, s, part, dv_product(s, strip, row),
                heads(s, part.count, scores, of_y, of_k), w.scores, dy_at, dv + at, w.rest);
    if (dbias != nullptr) {
      // dbias sums the gradients before they are scaled; the scale follows in a pass of its own.
      const std::int64_t size = sequence_floats(s);
      sum_columns(stream, 1, s.batch, size, 1.0f, w.gradients, dbias, w.rest);
      map(stream, s.batch * size, w.gradients, w.gradients, w.gradients, TimesFactor{s.scale});
    }
    multiply_matrices(stream, dq_product(s, strip, row), heads(s, part.count, scores, of_k, of_q),
                      w.gradients, k + at, nullptr, dq + queries, w.rest);
    add_to_keys(stream, s, part, dk_product(s, strip, row),
                heads(s, part.count, scores, of_q, of_k), w.gradients, q + queries, dk + at,
                w.rest);
  });
}

}  // namespace

void add_attention(DeviceKernels& kernels) {
  kernels.attention_workspace_floats = attention_workspace_floats;
  kernels.attention_fwd = attention_fwd;
  kernels.attention_bwd = attention_bwd;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
