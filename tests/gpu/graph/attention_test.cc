// The fused attention and the same arithmetic composed of other operators.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "gpu/graph/builder.h"
#include "gpu/graph/fuse.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/graph/builder") {
  using namespace es::gpu;
  using es::CpuClass;
  using es::FieldType;
  using es::test::StepRig;

  struct Config {
    std::int64_t batch, tokens, heads, width;  // The width of a head.
    bool bias, mask, length, packed;
    double dropout;
  };

  std::vector<float> random_mask(const Config& c) {
    std::mt19937_64 random(7);
    std::vector<float> mask(static_cast<std::size_t>(2 * c.tokens * c.tokens));
    for (float& v : mask) v = random() % 3 == 0 ? -100.0F : 0.0F;
    return mask;
  }

  std::vector<std::int32_t> lengths(const Config& c) {
    std::vector<std::int32_t> length;
    for (std::int64_t b = 0; b < c.batch; ++b)
      length.push_back(static_cast<std::int32_t>(1 + (b * 3 + 2) % c.tokens));
    return length;
  }

  // [1,heads,t,t], of parameters.
  TensorId bias_of(GraphBuilder & b, const Config& c) {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < c.tokens * c.tokens; ++i)
      ids.push_back(static_cast<std::int32_t>(i * 7 % 5));
    const TensorId index = b.constant_ids("index", {1, c.tokens, c.tokens, 1}, ids);
    const TensorId rows = b.lookup("table", index, 5, c.heads, {});
    return b.permute("bias", rows, {Axis::kN, Axis::kC, Axis::kH, Axis::kW});
  }

  TensorId fused(GraphBuilder & b, const Config& c, const std::vector<TensorId>& qkv) {
    AttentionOptions o{.heads = c.heads, .dropout = c.dropout};
    if (c.bias) o.bias = bias_of(b, c);
    if (c.mask) o.mask = b.constant("mask", {2, 1, c.tokens, c.tokens}, random_mask(c));
    if (c.length) o.length = b.constant_ids("length", {c.batch, 1, 1, 1}, lengths(c));
    return c.packed ? b.attention("attention", qkv[0], o)
                    : b.attention("attention", qkv[0], qkv[1], qkv[2], o);
  }

  // The numbers that the operator adds to the scores, one for each score.
  TensorId written_out(GraphBuilder & b, const Config& c, bool mask) {
    std::vector<float> values;
    const std::vector<float> masks = random_mask(c);
    for (std::int64_t n = 0; n < c.batch; ++n)
      for (std::int64_t rest = 0; rest < c.heads * c.tokens * c.tokens; ++rest) {
        const std::int64_t cell = rest % (c.tokens * c.tokens);
        const bool beyond = cell % c.tokens >= lengths(c)[n];
        const float cut = beyond ? -std::numeric_limits<float>::infinity() : 0.0F;
        values.push_back(mask ? masks[n % 2 * c.tokens * c.tokens + cell] : cut);
      }
    return b.constant(mask ? "mask" : "length", {c.batch, c.heads, c.tokens, c.tokens}, values);
  }

  TensorId composed(GraphBuilder & b, const Config& c, std::vector<TensorId> qkv) {
    const std::vector<int> heads_first = {Axis::kN, Axis::kW, Axis::kH, Axis::kC};
    if (c.packed) qkv = b.split("split", qkv[0], Axis::kC, 3);
    for (TensorId& t : qkv) {
      t = b.reshape("heads", t, {c.batch, c.tokens, c.heads, c.width});
      t = b.permute("heads first", t, heads_first);
    }
    TensorId p = b.matmul("scores", qkv[0], qkv[1], true);
    p = b.scale("scale", p, static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.width))));
    if (c.bias) p = b.add_rows("add bias", p, bias_of(b, c));
    if (c.mask) p = b.add("add mask", p, written_out(b, c, true));
    if (c.length) p = b.add("cut", p, written_out(b, c, false));
    p = b.dropout("dropout", b.softmax("softmax", p), c.dropout);
    const TensorId y = b.permute("tokens first", b.matmul("values", p, qkv[2]), heads_first);
    return b.reshape("join", y, {c.batch, c.tokens, 1, c.heads * c.width});
  }

  template <class Attention>
  Graph model(const Config& c, Attention attention) {
    const std::int64_t width = c.heads * c.width;
    GraphBuilder b("net", c.batch, {{{"tokens", FieldType::kF32, c.tokens, 1, 6}}});
    std::vector<TensorId> qkv;
    for (int i = 0; i < (c.packed ? 1 : 3); ++i)
      qkv.push_back(b.linear("qkv" + std::to_string(i), b.input("tokens"),
                             {.out = c.packed ? 3 * width : width}));
    const TensorId y = attention(b, c, qkv);
    b.mse("loss", y,
          b.constant("target", b.shape(y), std::vector<float>(b.shape(y).count(), 0.3F)));
    es::Result<Graph> graph = b.finish({y});
    REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
    return std::move(*graph);
  }

  // [n,t,1,6] becomes [n,heads,t,d].
  TensorId heads(GraphBuilder & b, const std::string& name, std::int64_t count, std::int64_t d) {
    const TensorId x = b.linear(name, b.input("tokens"), {.out = count * d});
    const std::int64_t n = b.shape(x)[0], t = b.shape(x)[1];
    const TensorId split = b.reshape(name + " split", x, {n, t, count, d});
    return b.permute(name + " heads", split, {Axis::kN, Axis::kW, Axis::kH, Axis::kC});
  }

  // The floats of a local step on one sequence with `heads` heads of 16 columns, which share the
  // keys of two.
  std::int64_t step_floats(std::int64_t tokens, std::int64_t queries) {
    GraphBuilder b("net", 1, {{{"tokens", FieldType::kF32, tokens, 1, 6}}});
    TensorId y = kNoTensor;
    if (queries == 2) {
      const TensorId qkv = b.linear("qkv", b.input("tokens"), {.out = 3 * 32});
      y = b.attention("attention", qkv, {.heads = 2, .causal = true, .dropout = 0.1});
    } else {
      y = b.attention_by_head("attention", heads(b, "q", queries, 16), heads(b, "k", 2, 16),
                              heads(b, "v", 2, 16), {.causal = true, .dropout = 0.1});
    }
    b.mse("loss", y,
          b.constant("target", b.shape(y), std::vector<float>(b.shape(y).count(), 0.3F)));
    const StepRig rig(compile(*b.finish({y})), 1,
                      {.cpu_class = es::supported_cpu_classes().back(), .threads = 2});
    return rig.executor->plan().arena_floats + rig.executor->workspace_floats();
  }

  // Attention of three parts [n,t,1,16] of a linear layer.
  Program of_parts(const std::vector<std::int64_t>& begins, bool read_again) {
    GraphBuilder b("net", 2, {{{"tokens", FieldType::kF32, 5, 1, 6}}});
    const TensorId all = b.linear("all", b.input("tokens"), {.out = 48});
    std::vector<TensorId> parts;
    for (const std::int64_t begin : begins)
      parts.push_back(b.slice("part", all, Axis::kC, begin, 16));
    TensorId y = b.attention("attention", parts[0], parts[1], parts[2], {.heads = 2});
    if (read_again) y = b.add("again", y, parts[1]);
    b.mse("loss", y,
          b.constant("target", b.shape(y), std::vector<float>(b.shape(y).count(), 0.3F)));
    return compile(*b.finish({y}));
  }

  std::int64_t moves(const Program& program) {
    return std::ranges::count(program.graph.ops, OpKind::kMove, &Op::kind);
  }

  TEST_CASE("queries, keys and values are read where one linear layer has written them") {
    CHECK(moves(of_parts({0, 16, 32}, false)) == 0);
    // Other parts, or another reader: the thirds are copied, and so are their gradients.
    CHECK(moves(of_parts({16, 0, 32}, false)) == 2);
    CHECK(moves(of_parts({0, 16, 32}, true)) == 2);
  }

  TEST_CASE("the memory of attention grows with the tokens, and not with their square") {
    for (const std::int64_t heads : {2, 4}) {
      std::int64_t least = INT64_MAX, most = 0;
      for (const std::int64_t tokens : {64, 256, 1024}) {
        const std::int64_t each = step_floats(tokens, heads) / tokens;
        least = std::min(least, each);
        most = std::max(most, each);
      }
      // Two matrices [1024][1024] would be 2,048 floats for each token. The rows of scores that two
      // threads have at a time are 512 at most.
      CHECK(most - least < 512);
      CHECK(most < 800 + 350 * heads);
    }
  }

  TEST_CASE("heads that share keys have the bits of one product over their queries") {
    const std::uint64_t seed = es::test::seed("attention of groups");
    constexpr std::int64_t kDim = 6;
    const auto network = [&](std::int64_t t, std::int64_t shared, bool causal, bool one) {
      const std::int64_t groups = 2, all = groups * shared, s = t;
      GraphBuilder b("net", 2, {{{"tokens", FieldType::kF32, t, 1, 6}}});
      const TensorId q = heads(b, "q", all, kDim), k = heads(b, "k", groups, kDim);
      const TensorId v = heads(b, "v", groups, kDim);
      TensorId y = kNoTensor;
      if (one) {
        y = b.attention_by_head("attention", q, k, v,
                                {.scale = 0.3F, .causal = causal, .dropout = 0.2});
      } else {
        std::vector<float> values;
        for (std::int64_t i = 0; i < t * s; ++i)
          values.push_back(causal && i % s > i / s ? -std::numeric_limits<float>::infinity()
                                                   : 0.0F);
        TensorId p =
            b.matmul("scores", b.reshape("rows", q, {2, groups, shared * t, kDim}), k, true);
        p = b.reshape("by head", b.scale("scale", p, 0.3F), {2, all, t, s});
        p = b.binary("mask", Function::kAdd, p, b.constant("causal", {1, 1, t, s}, values));
        p = b.dropout("dropout", b.softmax("softmax", p), 0.2);
        y = b.matmul("values", b.reshape("by group", p, {2, groups, shared * t, s}), v);
        y = b.reshape("join", y, {2, all, t, kDim});
      }
      b.mse("loss", y,
            b.constant("target", b.shape(y), std::vector<float>(b.shape(y).count(), 0.3F)));
      es::Result<Graph> graph = b.finish({y});
      REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
      return compile(*graph);
    };
    for (const bool causal : {false, true})
      for (const std::int64_t t : {7, 150, 300})
        for (const CpuClass cpu_class : es::supported_cpu_classes()) {
          INFO(t, " tokens, causal ", causal, ", class ", int(cpu_class));
          StepRig fused(network(t, 4, causal, true), seed, {.cpu_class = cpu_class, .threads = 2});
          StepRig products(network(t, 4, causal, false), seed, {.cpu_class = cpu_class});
          CHECK(fused.step_bits() == products.step_bits());
          CHECK(fused.evaluation_bits() == products.evaluation_bits());
        }
  }

  TEST_CASE("causal attention has the bits of a mask of -inf, and a mask of keys those of rows") {
    const std::uint64_t seed = es::test::seed("attention masks");
    constexpr std::int64_t kTokens = 37;
    const auto with_masks = [&](bool causal, bool rows) {
      std::vector<float> values;
      for (std::int64_t i = 0; i < (rows ? kTokens : 1); ++i)
        for (std::int64_t j = 0; j < kTokens; ++j)
          values.push_back(!causal && j > i && rows ? -std::numeric_limits<float>::infinity()
                                                    : static_cast<float>(j % 5) * -0.75F);
      GraphBuilder b("net", 2, {{{"tokens", FieldType::kF32, kTokens, 1, 6}}});
      const TensorId qkv = b.linear("qkv", b.input("tokens"), {.out = 3 * 10});
      const TensorId mask = b.constant("mask", {1, 1, rows ? kTokens : 1, kTokens}, values);
      const TensorId y =
          b.attention("attention", qkv, {.heads = 2, .causal = causal, .mask = mask});
      b.mse("loss", y,
            b.constant("target", b.shape(y), std::vector<float>(b.shape(y).count(), 0.3F)));
      return compile(*b.finish({y}));
    };
    for (const CpuClass cpu_class : es::supported_cpu_classes()) {
      StepRig masked(with_masks(false, true), seed, {.cpu_class = cpu_class});
      const auto expected = masked.step_bits();
      for (const bool rows : {false, true}) {
        StepRig causal(with_masks(true, rows), seed, {.cpu_class = cpu_class});
        CHECK(causal.step_bits() == expected);
        CHECK(causal.evaluation_bits() == masked.evaluation_bits());
      }
    }
  }

  TEST_CASE("fused attention has the bits of the composed one, gradients included") {
    const std::uint64_t seed = es::test::seed("attention");
    const Config configs[] = {{3, 5, 2, 7, false, false, false, false, 0.0},
                              {2, 9, 1, 16, true, false, false, true, 0.0},
                              {4, 7, 3, 5, false, true, false, true, 0.3},
                              {3, 33, 2, 8, false, false, true, false, 0.1},
                              {70, 6, 2, 4, true, true, true, true, 0.5}};
    for (const Config& c : configs) {
      const Graph one = model(c, fused), many = model(c, composed);
      for (const CpuClass cpu_class : es::supported_cpu_classes()) {
        INFO(c.batch, " sequences of ", c.tokens, ", class ", int(cpu_class));
        StepRig a(compile(one), seed, {.cpu_class = cpu_class});
        StepRig b(compile(many), seed, {.cpu_class = cpu_class});
        CHECK(a.step_bits() == b.step_bits());
        CHECK(a.evaluation_bits() == b.evaluation_bits());
      }
    }
  }
}
