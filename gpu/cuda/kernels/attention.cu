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

std::int64_t score_rows(const AttentionShape& s) {
  return s.batch * s.heads * s.tokens;
}
std::int64_t score_floats(const AttentionShape& s) {
  return score_rows(s) * s.tokens;
}

// The steps between the matrices of heads: of q, k, v and their gradients; of y and dy; of scores.
BatchSteps qkv_steps(const AttentionShape& s) {
  return {.outer = s.tokens * s.qkv_stride, .inner = s.head_dim};
}
BatchSteps y_steps(const AttentionShape& s) {
  return {.outer = s.tokens * s.y_stride, .inner = s.head_dim};
}
BatchSteps score_steps(const AttentionShape& s) {
  return {.outer = s.heads * s.tokens * s.tokens, .inner = s.tokens * s.tokens};
}
MatrixBatch heads(const AttentionShape& s, const BatchSteps& a, const BatchSteps& b,
                  const BatchSteps& c) {
  return {.count = s.batch * s.heads, .inner = s.heads, .a = a, .b = b, .c = c};
}

// Turns the scores, after their product, into probabilities in place: scale, bias, mask, length,
// softmax. With dropout it also writes the probabilities after dropout.
struct ProbabilityRows {
  static constexpr unsigned kThreads = kRowThreads;
  using Shared = OnlyRuns;
  AttentionShape s;
  AttentionExtras extras;
  const DropoutKey* key;
  float *probs, *dropped;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t row = my_row(block), t = s.tokens;
    if (row >= s.batch * s.heads * t) return;
    const std::int64_t query = row % t, b = row / t / s.heads, h = row / t % s.heads;
    float* const p = probs + row * t;
    const float* bias = extras.bias == nullptr ? nullptr : extras.bias + (h * t + query) * t;
    const float* mask = s.masks == 0 ? nullptr : extras.mask + (b % s.masks * t + query) * t;
    const std::int64_t keys = extras.length == nullptr ? t : extras.length[b];
    write_row(block, t, p, [&](std::int64_t i) {
      float score = p[i] * s.scale;
      if (bias != nullptr) score = score + bias[i];
      if (mask != nullptr) score = score + mask[i];
      return i >= keys ? -kInfinity : score;
    });
    // Each thread reads again the elements that it wrote itself, so no barrier is needed. SUM64 and
    // the maximum use the same distribution: thread t has the elements t, t + 32, t + 64, ...
    const float shift = softmax_shift(row_max(block, t, p));
    const float scale = softmax_scale(run_sum64(
        block, t, [&](std::int64_t i, float sum) { return sum + canonical_exp(p[i] - shift); }));
    write_row(block, t, p, [&](std::int64_t i) { return canonical_exp(p[i] - shift) * scale; });
    if (dropped == nullptr) return;
    const DropoutKey drawn = *key;
    write_row(block, t, dropped + row * t, [&](std::int64_t i) {
      return keep_scaled(keeps(s.dropout, drawn, row * t + i), p[i], s.dropout.factor);
    });
  }
};

// Turns the gradients of the probabilities after dropout into those of the scores, before or after
// the scale (`scaled`), in place. With dropout it also writes the probabilities after dropout
// again.
struct GradientRows {
  static constexpr unsigned kThreads = kRowThreads;
  using Shared = OnlyRuns;
  AttentionShape s;
  const DropoutKey* key;
  const float* probs;
  float *gradients, *dropped;
  bool scaled;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t row = my_row(block), t = s.tokens;
    if (row >= s.batch * s.heads * t) return;
    const float* const p = probs + row * t;
    float* const d = gradients + row * t;
    if (dropped != nullptr) {
      const DropoutKey drawn = *key;
      write_row(block, t, d, [&](std::int64_t i) {
        const bool keep = keeps(s.dropout, drawn, row * t + i);
        dropped[row * t + i] = keep_scaled(keep, p[i], s.dropout.factor);
        return keep_scaled(keep, d[i], s.dropout.factor);
      });
    }
    const float total =
        run_sum64(block, t, [&](std::int64_t i, float sum) { return fma(d[i], p[i], sum); });
    write_row(block, t, d, [&](std::int64_t i) {
      const float gradient = p[i] * (d[i] - total);
      return scaled ? gradient * s.scale : gradient;
    });
  }
};

struct TimesFactor {
  float factor;
  ES_HD float operator()(float a, float) const { return a * factor; }
};

// The workspace. Both passes need the probabilities after dropout, if there is dropout. The
// backward pass also needs the gradients of the scores. Behind them is the workspace of the
// products and of the column sums of dbias.
struct Workspace {
  float *dropped, *gradients, *rest;
};
std::int64_t matrix_floats(const AttentionShape& s) {
  // The matrices are padded to cache lines, so that all of them allow packs.
  return round_up(score_floats(s), 16);
}
Workspace workspace(const AttentionShape& s, float* ws) {
  const bool drops = s.dropout.threshold != 0;
  float* const gradients = drops ? ws + matrix_floats(s) : ws;
  return {drops ? ws : nullptr, gradients, gradients + matrix_floats(s)};
}

std::size_t attention_workspace_floats(const AttentionShape& s) {
  const std::int64_t matrices = s.dropout.threshold != 0 ? 2 : 1;
  std::int64_t rest = level_rows(s.batch) * s.heads * s.tokens * s.tokens;
  for (const GemmShape& product :
       {scores_product(s, s.tokens), y_product(s, s.tokens), dk_product(s, s.tokens)}) {
    const MatrixBatch batch{
        .count = s.batch * s.heads, .inner = s.heads, .a = {}, .b = {}, .c = {}};
    rest = larger(rest, static_cast<std::int64_t>(matrices_workspace_floats(product, batch)));
  }
  return static_cast<std::size_t>(matrices * matrix_floats(s) + rest);
}

void attention_fwd(Stream stream, const AttentionShape& s, const float* q, const float* k,
                   const float* v, const AttentionExtras& extras, const DropoutKey* key, float* y,
                   float* probs, float* ws) {
  const Workspace w = workspace(s, ws);
  multiply_matrices(stream, scores_product(s, s.tokens),
                    heads(s, qkv_steps(s), qkv_steps(s), score_steps(s)), q, k, nullptr, probs,
                    w.rest);
  launch(stream, {.x = blocks_of_rows(score_rows(s))},
         ProbabilityRows{s, extras, key, probs, w.dropped});
  multiply_matrices(stream, y_product(s, s.tokens),
                    heads(s, score_steps(s), qkv_steps(s), y_steps(s)),
                    w.dropped != nullptr ? w.dropped : probs, v, nullptr, y, w.rest);
}

void attention_bwd(Stream stream, const AttentionShape& s, const float* q, const float* k,
                   const float* v, const float* probs, const float* dy, const DropoutKey* key,
                   float* dq, float* dk, float* dv, float* dbias, float* ws) {
  const Workspace w = workspace(s, ws);
  const BatchSteps scores = score_steps(s), qkv = qkv_steps(s);
  multiply_matrices(stream, dprobs_product(s, s.tokens), heads(s, y_steps(s), qkv, scores), dy, v,
                    nullptr, w.gradients, w.rest);
  launch(stream, {.x = blocks_of_rows(score_rows(s))},
         // Without dbias the kernel scales the gradients at once, which saves a pass over them.
         GradientRows{s, key, probs, w.gradients, w.dropped, dbias == nullptr});
  multiply_matrices(stream, dv_product(s, s.tokens), heads(s, scores, y_steps(s), qkv),
                    w.dropped != nullptr ? w.dropped : probs, dy, nullptr, dv, w.rest);
  if (dbias != nullptr) {
    // dbias sums the gradients before they are scaled; the scale follows in a pass of its own.
    sum_columns(stream, 1, s.batch, scores.outer, 1.0f, w.gradients, dbias, w.rest);
    map(stream, score_floats(s), w.gradients, w.gradients, w.gradients, TimesFactor{s.scale});
  }
  multiply_matrices(stream, dq_product(s, s.tokens), heads(s, scores, qkv, qkv), w.gradients, k,
                    nullptr, dq, w.rest);
  multiply_matrices(stream, dk_product(s, s.tokens), heads(s, scores, qkv, qkv), w.gradients, q,
                    nullptr, dk, w.rest);
}

}  // namespace

void add_attention(DeviceKernels& kernels) {
  kernels.attention_workspace_floats = attention_workspace_floats;
  kernels.attention_fwd = attention_fwd;
  kernels.attention_bwd = attention_bwd;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
