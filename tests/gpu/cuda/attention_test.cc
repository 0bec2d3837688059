#include "gpu/canonical/attention_math.h"
#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {
namespace {

// One attention with operands; q, k and v are columns of one array.
struct Case {
  Case(Random& random, std::int64_t batch, std::int64_t tokens, std::int64_t heads,
       std::int64_t head_dim, bool with_dropout) {
    const std::int64_t width = heads * head_dim, size = tokens * tokens;
    s = {.batch = batch, .tokens = tokens, .heads = heads, .head_dim = head_dim};
    s.qkv_stride = 3 * width + (random.coin() ? 0 : random.integer(1, 3));
    s.y_stride = width + (random.coin() ? 0 : random.integer(1, 3));
    s.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    s.masks = random.coin() ? random.integer(1, batch) : 0;
    s.mask_rows = random.coin() ? 1 : tokens;
    if (with_dropout) s.dropout = {.threshold = 3221225472u, .op = 3, .factor = 1.0f / 0.75f};
    key = {.seed = static_cast<std::uint64_t>(random.integer(0, 1 << 30)) << 20,
           .step = static_cast<std::uint32_t>(random.integer(0, 1000)),
           .rank = static_cast<std::uint32_t>(random.integer(0, 64))};
    qkv = mixed_moderate(random, batch * tokens * s.qkv_stride);
    dy = mixed_moderate(random, batch * tokens * s.y_stride);
    bias = mixed_moderate(random, heads * size);
    mask.resize(static_cast<std::size_t>(s.masks * s.mask_rows * tokens));
    for (float& m : mask) m = random.coin() ? 0.0f : random.coin() ? -100.0f : -INFINITY;
    for (std::int64_t b = 0; b < batch; ++b) {
      length.push_back(static_cast<std::int32_t>(random.integer(0, tokens)));
    }
    if (random.coin()) add_bias();
    if (s.masks != 0) extras.mask = mask.data();
    if (random.coin()) extras.length = length.data();
    for (std::int64_t i = 0; i < batch * tokens; ++i) {
      first.push_back(static_cast<std::int32_t>(random.integer(-1, i % tokens + 1)));
    }
    if (random.coin()) extras.first = first.data();
  }
  void add_bias() {
    extras.bias = bias.data();
    s.bias_gradient = true;
  }
  // Without numbers whose products overflow.
  static Numbers<float> mixed_moderate(Random& random, std::int64_t n) {
    Numbers<float> values(static_cast<std::size_t>(n));
    for (float& v : values) v = random.integer(0, 99) == 0 ? -0.0f : random.normal();
    return values;
  }
  // Makes it an attention by_head.
  void by_head(Random& random, std::int64_t shared, std::int64_t keys) {
    s.by_head = true;
    s.shared = shared;
    s.key_tokens = keys;
    s.qkv_stride = s.y_stride = s.head_dim;
    const std::int64_t heads = s.heads * shared, q_floats = s.batch * q_steps(s).sequence;
    if (shared > 1) s.bias_gradient = false;
    s.mask_heads = random.coin() ? 1 : heads;
    qkv = mixed_moderate(random, q_floats + 2 * s.batch * k_steps(s).sequence);
    dy = mixed_moderate(random, q_floats);
    bias = mixed_moderate(random, heads * s.tokens * keys);
    mask.resize(static_cast<std::size_t>(s.masks * s.mask_heads * s.mask_rows * keys));
    for (float& m : mask) m = random.coin() ? 0.0f : -100.0f;
    if (extras.bias != nullptr) extras.bias = bias.data();
    if (s.masks != 0) extras.mask = mask.data();
  }
  std::int64_t k_at() const {
    return s.by_head ? s.batch * q_steps(s).sequence : s.heads * s.head_dim;
  }
  std::int64_t v_at() const {
    return k_at() + (s.by_head ? s.batch * k_steps(s).sequence : s.heads * s.head_dim);
  }
  const float* q() const { return qkv.data(); }
  const float* k() const { return q() + k_at(); }
  const float* v() const { return q() + v_at(); }
  // y, stats, gradients of q, k and v, dbias. Gaps between rows keep the value 7.
  std::vector<Floats> out() const {
    std::vector<Floats> result;
    for (const std::int64_t n : {std::ssize(dy), s.batch * s.heads * queries_of(s) * kRowStats,
                                 std::ssize(qkv), std::ssize(bias)}) {
      result.emplace_back(n, [] { return 7.0f; });
    }
    return result;
  }

  AttentionShape s;
  AttentionExtras extras;
  DropoutKey key;
  Numbers<float> qkv, dy, bias, mask;
  Numbers<std::int32_t> length, first;
};

void check(const Case& c) {
  const auto expected = c.out(), actual = c.out();
  const KernelTable& t = reference();
  const auto dbias = [&](const std::vector<Floats>& out) {
    return c.s.bias_gradient ? out[3].data() : nullptr;
  };
  t.attention_fwd(c.s, c.q(), c.k(), c.v(), c.extras, c.key, expected[0], expected[1],
                  workspace(t.attention_workspace_floats(c.s)));
  t.attention_bwd(c.s, c.q(), c.k(), c.v(), c.extras, expected[1], c.dy.data(), c.key, expected[2],
                  expected[2] + c.k_at(), expected[2] + c.v_at(), dbias(expected),
                  workspace(t.attention_workspace_floats(c.s)));
  const Numbers<DropoutKey> key(1, c.key);  // In memory that the device can read.
  device().attention_fwd(kStream, c.s, c.q(), c.k(), c.v(), c.extras, key.data(), actual[0],
                         actual[1], workspace(device().attention_workspace_floats(c.s)));
  device().attention_bwd(kStream, c.s, c.q(), c.k(), c.v(), c.extras, actual[1], c.dy.data(),
                         key.data(), actual[2], actual[2] + c.k_at(), actual[2] + c.v_at(),
                         dbias(actual), workspace(device().attention_workspace_floats(c.s)));
  check_same("attention of " + std::to_string(c.s.batch) + " sequences of " +
                 std::to_string(c.s.tokens) + " tokens, heads " + std::to_string(c.s.heads) +
                 " x " + std::to_string(c.s.head_dim),
             expected, actual);
}

TEST_SUITE("gpu/cuda/attention") {
  TEST_CASE("any shape, with and without bias, mask, lengths and dropout") {
    Random random(test::seed("cuda attention"));
    for (int i = 0; i < 40; ++i) {
      check(Case(random, random.integer(1, 4), random.integer(1, 80), random.integer(1, 3),
                 random.integer(1, 40), random.coin()));
    }
  }

  TEST_CASE("by head, with shared keys and other numbers of keys") {
    Random random(test::seed("cuda attention by head"));
    for (int i = 0; i < 40; ++i) {
      const std::int64_t tokens = random.integer(1, 80);
      Case c(random, random.integer(1, 4), tokens, random.integer(1, 3), random.integer(1, 40),
             random.coin());
      c.s.causal = random.coin();
      c.by_head(random, random.integer(1, 4), random.integer(1, c.s.causal ? tokens : 80));
      check(c);
    }
  }

  TEST_CASE("shared keys over several strips, which may end within a head") {
    Random random(test::seed("cuda attention shared"));
    for (const std::int64_t tokens : {3, 100, 256, 300, 700}) {
      for (const bool causal : {false, true}) {
        Case c(random, 2, tokens, 2, 5, tokens < 300);
        c.s.causal = causal;
        c.by_head(random, tokens == 3 ? 400 : 3, causal ? tokens : tokens + 13);
        check(c);
      }
    }
  }

  TEST_CASE("causal, over one strip of queries and several") {
    Random random(test::seed("cuda attention causal"));
    for (const std::int64_t tokens : {1, 7, 64, 90, 530, 1030}) {
      Case c(random, 1, tokens, 2, 5, tokens < 600);
      c.s.causal = true;
      check(c);
    }
  }

  TEST_CASE("the workspace grows with the tokens, and not with their square") {
    AttentionShape s{.batch = 64, .heads = 12, .head_dim = 64, .qkv_stride = 768, .y_stride = 768};
    s.tokens = 4096;
    const std::size_t floats = device().attention_workspace_floats(s);
    s.tokens = 8192;
    CHECK(device().attention_workspace_floats(s) <= 2 * floats);
    // Two matrices of 64 sequences would have 154 billion floats.
    CHECK(floats < 150'000'000);
  }

  TEST_CASE("NaN values are in the same elements as with the scalar class") {
    Random random(test::seed("cuda attention nan"));
    for (int i = 0; i < 20; ++i) {
      Case c(random, random.integer(1, 3), random.integer(1, 70), 2, 5, true);
      c.qkv[static_cast<std::size_t>(random.integer(0, std::ssize(c.qkv) - 1))] = NAN;
      c.dy[static_cast<std::size_t>(random.integer(0, std::ssize(c.dy) - 1))] = NAN;
      check(c);
    }
  }

  TEST_CASE("aligned heads, and more keys than a chunk of 512") {
    Random random(test::seed("cuda attention long"));
    check(Case(random, 2, 64, 4, 32, true));
    check(Case(random, 1, 530, 2, 8, false));
  }

  TEST_CASE("the gradient of a bias, over more sequences than runs of 64") {
    Random random(test::seed("cuda attention bias"));
    for (const std::int64_t batch : {64, 65, 130}) {
      Case c(random, batch, 7, 2, 4, true);
      c.add_bias();
      check(c);
    }
    Case c(random, 4100, 2, 1, 1, false);
    c.add_bias();
    check(c);
  }
}

}  // namespace
}  // namespace es::gpu::testing
