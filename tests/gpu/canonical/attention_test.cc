#include <algorithm>
#include <cmath>

#include "gpu/canonical/attention_math.h"
#include "gpu/canonical/phases.h"
#include "proto/base/philox.h"
#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

// One attention with operands. q, k and v are columns of one array, as a fused projection writes
// them, or follow each other in it (by_head).
struct Case {
  AttentionShape s;
  AttentionExtras extras;
  DropoutKey key;
  Floats qkv, dy, bias, mask;
  std::vector<std::int32_t> length, first;

  const float* q() const { return qkv; }
  std::int64_t k_at() const {
    return s.by_head ? s.batch * q_steps(s).sequence : s.heads * s.head_dim;
  }
  std::int64_t v_at() const {
    return k_at() + (s.by_head ? s.batch * k_steps(s).sequence : s.heads * s.head_dim);
  }
  const float* k() const { return qkv + k_at(); }
  const float* v() const { return qkv + v_at(); }
};

struct Options {
  std::int64_t batch, tokens, heads, head_dim;
  bool bias = false, mask = false, length = false, dropout = false;
  bool causal = false, key_mask = false;  // key_mask: a mask has one row for all queries
  bool first = false;
  // Of an attention by_head.
  std::int64_t shared = 1, keys = 0;
  bool by_head = false;
};

Case make_case(Random& random, const Options& o) {
  const std::int64_t keys = o.keys == 0 ? o.tokens : o.keys;
  const std::int64_t width = o.heads * o.head_dim, all_heads = o.heads * o.shared;
  const std::int64_t masks = o.mask ? random.integer(1, o.batch) : 0;
  const std::int64_t mask_heads = random.coin() ? 1 : all_heads;
  const std::int64_t mask_rows = o.key_mask ? 1 : o.tokens;
  const std::int64_t qkv_stride = o.by_head ? o.head_dim : 3 * width + random.integer(0, 2);
  const std::int64_t y_stride = o.by_head ? o.head_dim : width + random.integer(0, 2);
  const std::int64_t q_floats = o.batch * all_heads * o.tokens * o.head_dim;
  const std::int64_t k_floats = o.batch * o.heads * keys * o.head_dim;
  Case c{
      .s = {.batch = o.batch,
            .tokens = o.tokens,
            .heads = o.heads,
            .head_dim = o.head_dim,
            .key_tokens = o.keys,
            .shared = o.shared,
            .by_head = o.by_head,
            .qkv_stride = qkv_stride,
            .y_stride = y_stride,
            .scale = 1.0f / std::sqrt(static_cast<float>(o.head_dim)),
            .masks = masks,
            .mask_heads = mask_heads,
            .mask_rows = mask_rows,
            .causal = o.causal,
            .bias_gradient = o.bias && o.shared == 1},
      .extras = {},
      .key = {.seed = static_cast<std::uint64_t>(random.integer(0, 1 << 30)) << 20,
              .step = static_cast<std::uint32_t>(random.integer(0, 1000)),
              .rank = static_cast<std::uint32_t>(random.integer(0, 64))},
      .qkv = random.normals(o.by_head ? q_floats + 2 * k_floats : o.batch * o.tokens * qkv_stride),
      .dy = random.normals(o.by_head ? q_floats : o.batch * o.tokens * y_stride),
      .bias = random.normals(all_heads * o.tokens * keys),
      .mask = Floats(masks * mask_heads * mask_rows * keys,
                     [&] { return random.coin() ? 0.0f : -100.0f; }),
      .length = {},
      .first = {}};
  for (std::int64_t b = 0; b < o.batch; ++b) {
    c.length.push_back(static_cast<std::int32_t>(random.integer(0, keys)));
  }
  for (std::int64_t i = 0; i < o.batch * o.tokens; ++i) {
    c.first.push_back(static_cast<std::int32_t>(random.integer(-2, i % o.tokens + 1)));
  }
  if (o.dropout) c.s.dropout = {.threshold = 3221225472u, .op = 3, .factor = 1.0f / 0.75f};
  if (o.bias) c.extras.bias = c.bias;
  if (o.mask) c.extras.mask = c.mask;
  if (o.length) c.extras.length = c.length.data();
  if (o.first) c.extras.first = c.first.data();
  return c;
}

std::string text(const Case& c) {
  return "attention batch=" + std::to_string(c.s.batch) + " tokens=" + std::to_string(c.s.tokens) +
         " keys=" + std::to_string(keys_of(c.s)) + " heads=" + std::to_string(c.s.heads) + " x " +
         std::to_string(c.s.shared) + " head_dim=" + std::to_string(c.s.head_dim) +
         " by_head=" + std::to_string(c.s.by_head) + " masks=" + std::to_string(c.s.masks) +
         " of " + std::to_string(c.s.mask_heads) + " x " + std::to_string(c.s.mask_rows) +
         " causal=" + std::to_string(c.s.causal) +
         " first=" + std::to_string(c.extras.first != nullptr) +
         " dropout=" + std::to_string(c.s.dropout.threshold != 0);
}

enum Output { kY, kStats, kDqkv, kDbias };

// Gaps between rows keep the value 7.
std::vector<Floats> empty_outputs(const Case& c) {
  const auto seven = [] { return 7.0f; };
  std::vector<Floats> out;
  out.emplace_back(c.dy.size(), seven);
  out.emplace_back(c.s.batch * c.s.heads * queries_of(c.s) * kRowStats, seven);
  out.emplace_back(c.qkv.size(), seven);
  out.emplace_back(c.bias.size(), seven);
  return out;
}

void run_range(const KernelTable& t, const Case& c, const AttentionShape& s,
               std::vector<Floats>& out) {
  Floats ws = workspace(t.attention_workspace_floats(s));
  float* dq = out[kDqkv];
  t.attention_fwd(s, c.q(), c.k(), c.v(), c.extras, c.key, out[kY], out[kStats], ws);
  Floats ws_bwd = workspace(t.attention_workspace_floats(s));
  t.attention_bwd(s, c.q(), c.k(), c.v(), c.extras, out[kStats], c.dy, c.key, dq, dq + c.k_at(),
                  dq + c.v_at(), s.bias_gradient ? out[kDbias].data() : nullptr, ws_bwd);
}

std::vector<Floats> run(const KernelTable& t, const Case& c) {
  std::vector<Floats> out = empty_outputs(c);
  run_range(t, c, c.s, out);
  return out;
}

// --- the same with the public kernels and whole matrices, one step at a time

// Whether the scores of these keys are -inf: they are beyond the length, after the query, or before
// its first key.
bool hidden(const Case& c, std::int64_t b, std::int64_t row, std::int64_t key) {
  const std::int64_t query = row % c.s.tokens;
  if (c.extras.first != nullptr && key < c.first[b * c.s.tokens + query]) return true;
  return (c.extras.length != nullptr && key >= c.length[b]) || (c.s.causal && key > query);
}
float mask_at(const Case& c, std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t key) {
  const std::int64_t head = h * c.s.shared + row / c.s.tokens, query = row % c.s.tokens;
  const std::int64_t of_head = b % c.s.masks * c.s.mask_heads + head % c.s.mask_heads;
  return c.mask[(of_head * c.s.mask_rows + query % c.s.mask_rows) * keys_of(c.s) + key];
}

float dropped(const Case& c, std::int64_t e, float x) {
  if (c.s.dropout.threshold == 0) return x;
  const auto counter = static_cast<std::uint32_t>((e >> 7) * 32 + (e & 31));
  const auto words =
      philox4x32_10({counter, c.s.dropout.op, c.key.step, c.key.rank}, philox_key(c.key.seed));
  return words[(e >> 5) & 3] < c.s.dropout.threshold ? x * c.s.dropout.factor : 0.0f;
}

void gemm(const KernelTable& t, const GemmShape& s, const float* a, const float* b, float* c) {
  Floats ws = workspace(t.gemm_workspace_floats(s));
  t.gemm(s, a, b, nullptr, c, ws);
}

Strip whole(const AttentionShape& s) {
  return {0, queries_of(s), keys_of(s)};
}

void compose_head_forward(const KernelTable& t, const Case& c, std::int64_t b, std::int64_t h,
                          const Floats& all_probs, std::vector<Floats>& out) {
  const AttentionShape& s = c.s;
  const std::int64_t n = keys_of(s), rows = queries_of(s), p = probs_offset(s, b, h);
  const std::int64_t k_at = k_offset(s, b, h);
  float* probs = all_probs + p;
  gemm(t, scores_product(s, whole(s), n), c.q() + q_offset(s, b, h), c.k() + k_at, probs);
  for (std::int64_t i = 0; i < rows * n; ++i) {
    probs[i] *= s.scale;
    if (c.extras.bias != nullptr) probs[i] += c.bias[h * rows * n + i];
    if (c.extras.mask != nullptr) probs[i] += mask_at(c, b, h, i / n, i % n);
    if (hidden(c, b, i / n, i % n)) probs[i] = -INFINITY;
  }
  float* stats = out[kStats] + stats_offset(s, b, h);
  for (std::int64_t i = 0; i < rows; ++i) {
    const float largest = *std::max_element(probs + i * n, probs + (i + 1) * n);
    stats[i * kRowStats] = largest == -INFINITY ? 0.0f : largest + 0.0f;
  }
  t.softmax_fwd(rows, n, probs, probs);
  // The exponential of the largest score is 1.
  for (std::int64_t i = 0; i < rows; ++i)
    stats[i * kRowStats + 1] = *std::max_element(probs + i * n, probs + (i + 1) * n);
  Floats kept(rows * n);
  for (std::int64_t i = 0; i < rows * n; ++i) kept[i] = dropped(c, p + i, probs[i]);
  gemm(t, y_product(s, whole(s), n), kept, c.v() + k_at, out[kY] + y_offset(s, b, h));
}

// Leaves the gradient of the scores in ds[batch][heads][tokens][tokens].
void compose_head_backward(const KernelTable& t, const Case& c, std::int64_t b, std::int64_t h,
                           const Floats& all_probs, const Floats& all_ds,
                           std::vector<Floats>& out) {
  const AttentionShape& s = c.s;
  const std::int64_t n = keys_of(s), rows = queries_of(s), p = probs_offset(s, b, h);
  const std::int64_t q_at = q_offset(s, b, h), k_at = k_offset(s, b, h);
  const float *probs = all_probs + p, *dy = c.dy + y_offset(s, b, h);
  float *ds = all_ds + p, *dq = out[kDqkv] + q_at;
  float *dk = out[kDqkv] + c.k_at() + k_at, *dv = out[kDqkv] + c.v_at() + k_at;
  Floats kept(rows * n), scaled(rows * n);
  for (std::int64_t i = 0; i < rows * n; ++i) kept[i] = dropped(c, p + i, probs[i]);
  gemm(t, dv_product(s, whole(s), n), kept, dy, dv);
  gemm(t, dprobs_product(s, whole(s), n), dy, c.v() + k_at, ds);
  for (std::int64_t i = 0; i < rows * n; ++i) ds[i] = dropped(c, p + i, ds[i]);
  t.softmax_bwd(rows, n, probs, ds, ds);
  for (std::int64_t i = 0; i < rows * n; ++i) scaled[i] = ds[i] * s.scale;
  gemm(t, dq_product(s, whole(s), n), scaled, c.k() + k_at, dq);
  gemm(t, dk_product(s, whole(s), n), scaled, c.q() + q_at, dk);
}

std::vector<Floats> compose(const KernelTable& t, const Case& c) {
  std::vector<Floats> out = empty_outputs(c);
  const std::int64_t matrices = c.s.batch * c.s.heads * queries_of(c.s) * keys_of(c.s);
  const Floats probs(matrices), ds(matrices);
  for (std::int64_t b = 0; b < c.s.batch; ++b) {
    for (std::int64_t h = 0; h < c.s.heads; ++h) {
      compose_head_forward(t, c, b, h, probs, out);
      compose_head_backward(t, c, b, h, probs, ds, out);
    }
  }
  if (c.s.bias_gradient) {
    const std::int64_t cols = out[kDbias].size();
    Floats ws = workspace(t.colsum_workspace_floats(c.s.batch, cols));
    colsum(t, c.s.batch, cols, ds, out[kDbias], ws, Alone());
  }
  return out;
}

void check_equal(const std::vector<Floats>& actual, const std::vector<Floats>& expected,
                 const std::string& what) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::int64_t at = actual[i].first_difference(expected[i]);
    CHECK_MESSAGE(at == -1, what, ", output ", i, " differs at element ", at);
  }
}

void check_case(const Case& c) {
  const auto out = same_in_all_classes(text(c), [&](const KernelTable& t) { return run(t, c); });
  check_equal(out, compose(reference(), c), text(c) + " against its composition");
}

Options random_options(Random& random) {
  return {.batch = random.integer(1, 4),
          .tokens = random.integer(1, 70),
          .heads = random.integer(1, 3),
          .head_dim = random.integer(1, 70),
          .bias = random.coin(),
          .mask = random.coin(),
          .length = random.coin(),
          .dropout = random.coin(),
          .causal = random.coin(),
          .key_mask = random.coin(),
          .first = random.coin()};
}

// An attention by_head, whose heads share keys or whose numbers of queries and keys differ.
Options random_options_by_head(Random& random) {
  Options o = random_options(random);
  o.by_head = true;
  o.shared = random.integer(1, 4);
  o.keys = o.causal ? random.integer(1, o.tokens) : random.integer(1, 70);
  return o;
}

// sum(y * dy) in double precision, whose derivatives are the gradients.
double objective(const Case& c) {
  const AttentionShape& s = c.s;
  const std::int64_t n = s.tokens, d = s.head_dim;
  double total = 0;
  for (std::int64_t row = 0; row < s.batch * s.heads * n; ++row) {
    const std::int64_t b = row / n / s.heads, h = row / n % s.heads, i = row % n;
    const float *q = c.q() + q_offset(s, b, h) + i * s.qkv_stride, *k = c.k() + k_offset(s, b, h);
    const float *v = c.v() + k_offset(s, b, h), *dy = c.dy + y_offset(s, b, h) + i * s.y_stride;
    std::vector<double> e(static_cast<std::size_t>(n));
    double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      double score = 0;
      for (std::int64_t x = 0; x < d; ++x) score += double{q[x]} * k[j * s.qkv_stride + x];
      score *= s.scale;
      if (c.extras.bias != nullptr) score += c.bias[(h * n + i) * n + j];
      if (c.extras.mask != nullptr) score += mask_at(c, b, h, i, j);
      e[j] = hidden(c, b, i, j) ? 0.0 : std::exp(score);
      sum += e[j];
    }
    for (std::int64_t j = 0; j < n && sum > 0; ++j) {
      const double p = dropped(c, probs_offset(s, b, h) + i * n + j, 1.0f) * e[j] / sum;
      for (std::int64_t x = 0; x < d; ++x) total += p * v[j * s.qkv_stride + x] * dy[x];
    }
  }
  return total;
}

void check_derivative(const Case& c, float& at, float gradient, const std::string& what) {
  const float value = at, step = 0x1p-7f;
  at = value + step;
  const double high = objective(c);
  at = value - step;
  const double low = objective(c);
  at = value;
  check_near(gradient, (high - low) / (2.0 * step), 2e-3, what);
}

TEST_SUITE("gpu/canonical/attention") {
  TEST_CASE("attention has the bits of its composition, in every class") {
    Random random(test::seed("attention"));
    for (int i = 0; i < 40; ++i) check_case(make_case(random, random_options(random)));
  }

  TEST_CASE("so has attention by head, with shared keys and other numbers of keys") {
    Random random(test::seed("attention by head"));
    for (int i = 0; i < 60; ++i) check_case(make_case(random, random_options_by_head(random)));
  }

  TEST_CASE("shared keys over several strips and chunks of 512, which may end within a head") {
    Random random(test::seed("attention shared strips"));
    for (const bool causal : {false, true})
      for (const std::int64_t tokens : {3, 100, 256, 300, 700}) {
        Options o{.batch = 2, .tokens = tokens, .heads = 2, .head_dim = 5};
        o.causal = causal;
        o.shared = tokens == 3 ? 400 : 4;
        o.by_head = true;
        o.dropout = tokens == 300;
        o.first = causal && tokens < 300;
        check_case(make_case(random, o));
        o.keys = causal ? tokens - 1 : tokens + 13;
        check_case(make_case(random, o));
      }
  }

  TEST_CASE("the shapes of BERT, ELECTRA and Swin") {
    Random random(test::seed("attention shapes"));
    check_case(make_case(random, {1, 64, 2, 64, false, false, true, true}));
    check_case(make_case(random, {2, 128, 1, 64, false, false, true, true}));
    check_case(make_case(random, {3, 49, 3, 32, true, true, false, false}));
    check_case(make_case(random, {1, 600, 1, 9, false, false, true, true}));
  }

  TEST_CASE("several strips of queries, and several chunks of 512") {
    Random random(test::seed("attention strips"));
    for (const bool causal : {false, true}) {
      check_case(make_case(random, {.batch = 1,
                                    .tokens = 1100,
                                    .heads = 1,
                                    .head_dim = 6,
                                    .dropout = true,
                                    .causal = causal}));
      check_case(make_case(random, {.batch = 2,
                                    .tokens = 300,
                                    .heads = 1,
                                    .head_dim = 33,
                                    .bias = true,
                                    .mask = true,
                                    .length = true,
                                    .causal = causal,
                                    .key_mask = true}));
    }
  }

  TEST_CASE("documents have the bits of the mask that separates them") {
    Random random(test::seed("attention documents"));
    for (const std::int64_t tokens : {9, 70, 600}) {
      Case c = make_case(random, {.batch = 2,
                                  .tokens = tokens,
                                  .heads = 2,
                                  .head_dim = 5,
                                  .dropout = true,
                                  .causal = true});
      const Floats mask(c.s.batch * tokens * tokens, [] { return 0.0f; });
      for (std::int64_t b = 0, start = 0; b < c.s.batch; ++b, start = 0) {
        for (std::int64_t i = 0; i < tokens; ++i) {
          if (random.integer(0, 9) == 0) start = i;
          c.first[b * tokens + i] = static_cast<std::int32_t>(start);
          for (std::int64_t j = 0; j < start; ++j) mask[(b * tokens + i) * tokens + j] = -INFINITY;
        }
      }
      const auto run_all = [&] {
        return same_in_all_classes(text(c), [&](const KernelTable& t) { return run(t, c); });
      };
      c.extras.mask = mask;
      c.s.masks = c.s.batch;
      c.s.mask_heads = 1;
      const auto expected = run_all();
      c.extras.first = c.first.data();
      c.extras.mask = nullptr;
      c.s.masks = 0;
      const auto out = run_all();
      for (const Output o : {kY, kStats, kDqkv}) CHECK(out[o].first_difference(expected[o]) == -1);
    }
  }

  TEST_CASE("the workspace grows with the tokens, and not with their square") {
    AttentionShape s{.batch = 2, .tokens = 64, .heads = 4, .head_dim = 64};
    s.dropout = {.threshold = 3221225472u};
    std::vector<const KernelTable*> tables = vector_classes();
    tables.push_back(&reference());
    for (const KernelTable* table : tables) {
      std::int64_t least = INT64_MAX, most = 0;
      for (const std::int64_t tokens : {256, 1024, 4096, 16384}) {
        s.tokens = tokens;
        s.shared = tokens == 1024 ? 4 : 1;
        const auto floats = static_cast<std::int64_t>(table->attention_workspace_floats(s));
        least = std::min(least, floats / tokens);
        most = std::max(most, floats / tokens);
      }
      // With one matrix [tokens][tokens] it would grow by 16,384 floats a token.
      CHECK(most < 1200);
      CHECK(least > 0);
    }
  }

  TEST_CASE("the gradient of the bias is a COLSUM over the sequences, with all its levels") {
    Random random(test::seed("attention bias"));
    for (const std::int64_t batch : {63, 64, 65, 128, 4096, 4097}) {
      check_case(make_case(random, {batch, 2, 1, 2, true, false, false, false}));
    }
  }

  TEST_CASE("heads that are computed one range at a time give the same bits") {
    Random random(test::seed("attention heads"));
    const Case c = make_case(random, {2, 19, 5, 8, true, true, true, true});
    const auto expected = run(reference(), c);
    std::vector<const KernelTable*> tables = vector_classes();
    tables.push_back(&reference());
    for (const KernelTable* table : tables) {
      std::vector<Floats> out = empty_outputs(c);
      for (const auto& [begin, count] : {std::pair{3, 2}, std::pair{0, 1}, std::pair{1, 2}}) {
        AttentionShape s = c.s;
        s.head_begin = begin;
        s.head_count = count;
        run_range(*table, c, s, out);
      }
      check_equal(out, expected, "ranges of heads");
    }
  }

  TEST_CASE("the gradients are derivatives of the double-precision definition") {
    Random random(test::seed("attention gradient"));
    for (const bool extras : {false, true}) {
      const Case c = make_case(random, {2, 5, 2, 3, extras, extras, extras, extras, extras});
      const auto out = run(reference(), c);
      for (std::int64_t row = 0; row < c.s.batch * c.s.tokens; ++row) {
        for (std::int64_t i = 0; i < 3 * c.s.heads * c.s.head_dim; ++i) {
          const std::int64_t at = row * c.s.qkv_stride + i;
          check_derivative(c, c.qkv[at], out[kDqkv][at], text(c) + " dqkv");
        }
      }
      for (std::int64_t i = 0; extras && i < c.bias.size(); ++i) {
        check_derivative(c, c.bias[i], out[kDbias][i], text(c) + " dbias");
      }
    }
  }

  TEST_CASE("a sequence of length 0 gives zeros, and so are its gradients") {
    Random random(test::seed("attention empty"));
    Case c = make_case(random, {2, 20, 2, 6, false, false, true, true});
    c.length = {0, 20};
    c.extras.length = c.length.data();
    const auto out =
        same_in_all_classes("length 0", [&](const KernelTable& t) { return run(t, c); });
    for (std::int64_t i = 0; i < c.s.heads * 20 * kRowStats; ++i) CHECK(out[kStats][i] == 0.0f);
    for (std::int64_t token = 0; token < 20; ++token) {
      for (std::int64_t x = 0; x < 12; ++x) CHECK(out[kY][token * c.s.y_stride + x] == 0.0f);
      for (std::int64_t x = 0; x < 36; ++x) CHECK(out[kDqkv][token * c.s.qkv_stride + x] == 0.0f);
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing
