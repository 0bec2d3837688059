#include "tests/gpu/graph/operator_cases.h"

#include <doctest/doctest.h>

#include <functional>
#include <numeric>
#include <random>

#include "gpu/graph/builder.h"

namespace es::test {
namespace {

using namespace es::gpu;

constexpr std::int64_t kBatch = 3;
using Build = std::function<TensorId(GraphBuilder&)>;

SampleLayout layout() {
  return {{{"image", FieldType::kF32, 6, 8, 4},
           {"tokens", FieldType::kF32, 5, 1, 12},
           {"ids", FieldType::kI32, 7, 1, 1, 0, 9},
           {"length", FieldType::kI32, 1, 1, 1, 1, 5},
           {"label", FieldType::kI32, 1, 1, 1, 0, 4},
           {"span", FieldType::kI32, 1, 1, 2, -1, 4},
           {"rating", FieldType::kF32, 1, 1, 1}}};
}

std::vector<float> random_values(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> number(-1.0F, 1.0F);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = number(random);
  return values;
}

// The distance of the result from random numbers, so that every element has a different weight.
OperatorCase measured(const std::string& name, const Build& build) {
  GraphBuilder b(name, kBatch, layout());
  const TensorId y = build(b);
  const TensorShape s = b.shape(y);
  b.mse("loss", y, b.constant("target", s, random_values(s.count(), 5)));
  // The results of an evaluation have the samples as the first dimension.
  const TensorId out = s.front() % kBatch == 0 ? y : b.global_avg_pool("out", b.input("image"));
  Result<Graph> graph = b.finish({out});
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
  return {name, std::move(*graph)};
}

// Inputs that depend on parameters.
TensorId image(GraphBuilder& b, std::int64_t channels = 4, const std::string& name = "stem") {
  return b.linear(name, b.input("image"), {.out = channels});
}
TensorId tokens(GraphBuilder& b, std::int64_t channels, const std::string& name = "stem") {
  return b.linear(name, b.input("tokens"), {.out = channels});
}

void add_layers(std::vector<OperatorCase>& cases) {
  const auto conv = [&](const std::string& name, const Conv2dOptions& options) {
    cases.push_back(measured("conv2d " + name,
                             [&](GraphBuilder& b) { return b.conv2d("op", image(b), options); }));
  };
  conv("with bias", {.out = 6, .pad = 1, .bias = true});
  conv("stride 2", {.out = 5, .stride = 2, .pad = 1});
  conv("1x1", {.out = 7, .kernel = 1});
  conv("groups", {.out = 6, .kernel = 5, .pad = 2, .groups = 2});
  conv("depthwise", {.out = 4, .stride = 2, .pad = 1, .groups = 4});
  // Threads share its channels in place of its images.
  cases.push_back(measured("conv2d with more weights than pixels", [](GraphBuilder& b) {
    return b.conv2d("op", image(b, 48), {.out = 50, .stride = 2, .pad = 1, .bias = true});
  }));
  cases.push_back(measured("linear over the last axis", [](GraphBuilder& b) {
    return b.linear("op", tokens(b, 9), {.out = 5, .bias = false});
  }));
  cases.push_back(measured("linear after flatten and relu", [](GraphBuilder& b) {
    return b.linear("op", b.relu("relu", b.flatten("flatten", image(b))), {.out = 5});
  }));
  for (const Activation act : {Activation::kNone, Activation::kRelu, Activation::kLeakyRelu})
    cases.push_back(measured("batch norm " + std::to_string(int(act)), [&](GraphBuilder& b) {
      return b.batch_norm("op", image(b, 5), {act});
    }));
  cases.push_back(measured("batch norm of an input",
                           [](GraphBuilder& b) { return b.batch_norm("op", b.input("image")); }));
  cases.push_back(measured(
      "layer norm", [](GraphBuilder& b) { return b.layer_norm("op", tokens(b, 20), 1e-5); }));
  cases.push_back(measured("embedding", [](GraphBuilder& b) {
    return b.embedding("op", b.input("ids"), 10, 6, {WeightInit::Kind::kXavier});
  }));
  cases.push_back(measured("lookup of constants", [](GraphBuilder& b) {
    const TensorId ids = b.constant_ids("ids", {1, 2, 3, 1}, {0, 3, 3, 1, 0, 3});
    return b.lookup("table", ids, 5, 4, {WeightInit::Kind::kDeviation, 0.5});
  }));
}

void add_element_wise(std::vector<OperatorCase>& cases) {
  const auto unary = [&](const std::string& name,
                         TensorId (GraphBuilder::*call)(const std::string&, TensorId)) {
    cases.push_back(measured(name, [&](GraphBuilder& b) { return (b.*call)("op", image(b)); }));
  };
  unary("relu", &GraphBuilder::relu);
  unary("gelu", &GraphBuilder::gelu);
  unary("tanh", &GraphBuilder::tanh);
  unary("sigmoid", &GraphBuilder::sigmoid);
  unary("softmax", &GraphBuilder::softmax);
  const auto add = [&](const std::string& name, const Build& build) {
    cases.push_back(measured(name, build));
  };
  add("leaky relu", [](GraphBuilder& b) { return b.leaky_relu("op", image(b), 0.25F); });
  add("scale", [](GraphBuilder& b) { return b.scale("op", image(b), -1.5F); });
  add("add", [](GraphBuilder& b) {
    return b.add("op", image(b, 4, "a"), image(b, 4, "b"), {.relu = true});
  });
  add("add to itself", [](GraphBuilder& b) {
    const TensorId x = image(b);
    return b.add("op", x, x);
  });
  add("mul", [](GraphBuilder& b) { return b.mul("op", image(b, 4, "a"), image(b, 4, "b")); });
  add("mul by an input", [](GraphBuilder& b) { return b.mul("op", b.input("image"), image(b)); });
  add("square", [](GraphBuilder& b) {
    const TensorId x = image(b);
    return b.mul("op", x, x);
  });
  add("add_rows", [](GraphBuilder& b) {
    const TensorId ids = b.constant_ids("ids", {1, 5, 1, 1}, {0, 1, 2, 3, 4});
    return b.add_rows("op", tokens(b, 6), b.embedding("rows", ids, 5, 6, {}));
  });
  add("dropout",
      [](GraphBuilder& b) { return b.dropout("second", b.dropout("first", image(b), 0.3), 0.5); });
  add("drop_path", [](GraphBuilder& b) { return b.drop_path("op", image(b), 0.5); });
  add("uniform", [](GraphBuilder& b) {
    const TensorId x = image(b);
    return b.add("shifted", b.mul("scaled", x, b.uniform("first", b.shape(x))),
                 b.uniform("second", b.shape(x)));
  });
}

void add_products(std::vector<OperatorCase>& cases) {
  cases.push_back(measured("matmul", [](GraphBuilder& b) {
    const TensorId y = b.reshape("b", image(b, 3, "b0"), {3, 6, 8, 3});
    return b.matmul("op", image(b, 8, "a"), y);
  }));
  cases.push_back(measured("matmul transposed", [](GraphBuilder& b) {
    return b.matmul("op", image(b, 5, "a"), image(b, 5, "b"), true);
  }));
  cases.push_back(measured("matmul of five dimensions", [](GraphBuilder& b) {
    const TensorId x = b.reshape("a", image(b, 5, "a0"), {3, 2, 3, 8, 5});
    return b.matmul("op", x, b.reshape("b", image(b, 5, "b0"), {3, 2, 3, 5, 8}));
  }));
  cases.push_back(measured("rows of seven dimensions", [](GraphBuilder& b) {
    const TensorId x = b.reshape("x", image(b, 6), {3, 2, 3, 2, 4, 1, 6});
    return b.softmax("op", b.layer_norm("norm", x, 1e-5));
  }));
  cases.push_back(measured("attention packed, with everything", [](GraphBuilder& b) {
    const TensorId ids = b.constant_ids("ids", {1, 5, 5, 1}, std::vector<std::int32_t>(25, 2));
    const TensorId table = b.lookup("table", ids, 3, 2, {WeightInit::Kind::kXavier});
    const TensorId bias = b.permute("bias", table, {Axis::kN, Axis::kC, Axis::kH, Axis::kW});
    const TensorId mask = b.constant("mask", {3, 1, 5, 5}, random_values(75, 6));
    return b.attention(
        "op", tokens(b, 3 * 14),
        {.heads = 2, .bias = bias, .mask = mask, .length = b.input("length"), .dropout = 0.25});
  }));
  cases.push_back(measured("attention of the thirds of one tensor", [](GraphBuilder& b) {
    const TensorId mask = b.constant("mask", {3, 1, 5, 5}, random_values(75, 5));
    const TensorId all = b.reshape("apart", tokens(b, 3 * 8), {3, 5, 3, 2, 4});
    std::vector<TensorId> thirds;
    for (const std::int64_t i : {2, 0, 1}) {
      const TensorId third = b.strided_slice("third", all, 2, i, 1, 1);
      thirds.push_back(b.reshape("rows", third, {3, 5, 1, 8}));
    }
    return b.attention("op", thirds[1], thirds[2], thirds[0],
                       {.heads = 2, .mask = mask, .dropout = 0.25});
  }));
  cases.push_back(measured("attention, causal, with a mask of keys", [](GraphBuilder& b) {
    const TensorId mask = b.constant("mask", {1, 1, 1, 5}, random_values(5, 7));
    return b.attention("op", tokens(b, 3 * 8), {.heads = 2, .causal = true, .mask = mask});
  }));
  cases.push_back(measured("attention of three", [](GraphBuilder& b) {
    return b.attention("op", tokens(b, 9, "q"), tokens(b, 9, "k"), tokens(b, 9, "v"), {.heads = 3});
  }));
  cases.push_back(measured("attention of another scale, with a mask of heads", [](GraphBuilder& b) {
    const TensorId mask = b.constant("mask", {1, 3, 5, 5}, random_values(75, 8));
    return b.attention("op", tokens(b, 9, "q"), tokens(b, 9, "k"), tokens(b, 9, "v"),
                       {.heads = 3, .scale = 0.25F, .mask = mask});
  }));
  const auto heads = [](GraphBuilder& b, const std::string& name, std::int64_t count) {
    const TensorId x = b.reshape(name + " split", tokens(b, count * 4, name), {3, 5, count, 4});
    return b.permute(name + " heads", x, {Axis::kN, Axis::kW, Axis::kH, Axis::kC});
  };
  cases.push_back(measured("attention of heads that share keys", [heads](GraphBuilder& b) {
    const TensorId q = heads(b, "q", 6), k = heads(b, "k", 2), v = heads(b, "v", 2);
    return b.attention_by_head("op", q, k, v, {.causal = true, .dropout = 0.2});
  }));
  cases.push_back(measured("attention with fewer queries than keys", [heads](GraphBuilder& b) {
    const TensorId q = b.reshape("q", tokens(b, 8, "q0"), {3, 5, 2, 4});
    const TensorId k = b.reshape("k", heads(b, "k", 3), {3, 5, 3, 4});
    const TensorId mask = b.constant("mask", {3, 5, 1, 3}, random_values(45, 9));
    return b.attention_by_head("op", q, k, b.relu("v", k), {.mask = mask});
  }));
}

// X [5,3,...] by time. The weight is a parameter of the operator or a tensor.
TensorId recurrent(GraphBuilder& b, RecurrentCell cell, bool reverse, bool own_weight,
                   std::int64_t units) {
  Op op{.kind = OpKind::kRecurrent, .name = "op"};
  op.recurrence = {.cell = cell, .reverse = reverse};
  const std::int64_t width = op.recurrence.gates() * units;
  const TensorId x = b.reshape("x", tokens(b, width), {kBatch, 5, width});
  const TensorId state =
      b.reshape("h", b.linear("state", b.global_avg_pool("pool", b.input("image")), {.out = units}),
                {kBatch, units});
  op.in = {b.permute("by time", x, std::vector<int>{1, 0, 2}), state};
  if (cell == RecurrentCell::kLstm) op.in.push_back(b.tanh("c", state));
  if (own_weight) {
    op.weight = b.parameter({.name = "op.weight",
                             .torch_shape = {width, units},
                             .order = {.outer = width * units},
                             .init = {.bound = 0.5F}});
    op.bias = b.parameter({.name = "op.bias",
                           .torch_shape = {width},
                           .order = {.outer = width},
                           .init = {.bound = 0.5F}});
  } else {
    std::vector<std::int32_t> rows(static_cast<std::size_t>(width));
    std::iota(rows.rbegin(), rows.rend(), 0);
    const TensorId ids = b.constant_ids("ids", {width, 1, 1, 1}, rows);
    const TensorId weight =
        b.lookup("table", ids, width, units, {WeightInit::Kind::kDeviation, 0.5});
    op.tensors.weight = static_cast<std::int32_t>(op.in.size());
    op.in.push_back(b.reshape("weight", weight, {width, units}));
  }
  return b.apply(std::move(op));
}

void add_recurrent(std::vector<OperatorCase>& cases) {
  for (const RecurrentCell cell : {RecurrentCell::kLstm, RecurrentCell::kGru})
    for (const bool reverse : {false, true}) {
      const std::string name = cell == RecurrentCell::kLstm ? "lstm" : "gru";
      cases.push_back(measured(name + (reverse ? " in reverse" : ""), [&](GraphBuilder& b) {
        return recurrent(b, cell, reverse, !reverse, reverse ? 19 : 6);
      }));
    }
}

void add_pools(std::vector<OperatorCase>& cases) {
  cases.push_back(measured("max_pool", [](GraphBuilder& b) {
    return b.max_pool("op", image(b), {.kernel = 3, .stride = 2, .pad = 1});
  }));
  cases.push_back(measured("avg_pool", [](GraphBuilder& b) {
    return b.avg_pool("op", image(b),
                      {.kernel = 3, .stride = 1, .pad = 1, .stride_w = 2, .pad_w = 0});
  }));
  cases.push_back(measured("adaptive_avg_pool", [](GraphBuilder& b) {
    return b.adaptive_avg_pool("op", image(b), 7, 3);
  }));
  cases.push_back(measured("global_avg_pool",
                           [](GraphBuilder& b) { return b.global_avg_pool("op", image(b)); }));
}

void add_moves(std::vector<OperatorCase>& cases) {
  const auto add = [&](const std::string& name, const Build& build) {
    cases.push_back(measured(name, build));
  };
  for (const int axis : {Axis::kN, Axis::kH, Axis::kW, Axis::kC})
    add("concat " + std::to_string(axis), [&](GraphBuilder& b) {
      const TensorId x = image(b);
      return b.concat("op", {x, b.input("image"), image(b, 4, "other"), x}, axis);
    });
  add("slices that are apart", [](GraphBuilder& b) {
    const TensorId x = image(b);
    const TensorId left = b.slice("left", x, Axis::kW, 1, 2);
    const TensorId right = b.slice("right", x, Axis::kW, 5, 2);
    return b.mul("product", left, right);
  });
  add("slices that overlap", [](GraphBuilder& b) {
    const TensorId x = image(b);
    return b.mul("product", b.slice("a", x, Axis::kH, 0, 4), b.slice("b", x, Axis::kH, 2, 4));
  });
  add("split", [](GraphBuilder& b) {
    const std::vector<TensorId> parts = b.split("op", image(b, 6), Axis::kC, 3);
    return b.mul("product", parts[0], parts[2]);  // No operator reads the second part.
  });
  add("pad", [](GraphBuilder& b) { return b.pad("op", image(b), Axis::kH, 2, 1); });
  add("permute", [](GraphBuilder& b) {
    return b.permute("op", image(b), {Axis::kC, Axis::kW, Axis::kN, Axis::kH});
  });
  add("reshape", [](GraphBuilder& b) { return b.reshape("op", image(b), {6, 3, 16, 2}); });
  add("roll", [](GraphBuilder& b) {
    return b.roll("down", b.roll("left", image(b), Axis::kW, -3), Axis::kH, 1);
  });
  add("windows", [](GraphBuilder& b) {
    const TensorId x = image(b);
    const TensorId windows = b.linear("inside", b.window_partition("cut", x, 2), {.out = 4});
    return b.add("sum", x, b.window_reverse("join", windows, 2, b.image(x)));
  });
  add("upsample2", [](GraphBuilder& b) { return b.upsample2("op", image(b)); });
  add("state", [](GraphBuilder& b) {
    const TensorId x = image(b);
    const TensorShape& shape = b.shape(x);
    const std::int64_t place =
        b.add_state("state", {shape[0], shape[1], shape[2], shape[3]}, "F32");
    const TensorId before = b.state("before", place, shape, ElementType::kF32);
    const TensorId after = b.set_state("op", place, b.add("sum", b.gelu("gelu", x), before));
    return b.add("both", b.tanh("tanh", after), before);
  });
  add("channel_shuffle", [](GraphBuilder& b) { return b.channel_shuffle("op", image(b, 6), 3); });
  for (const std::int64_t channels : {4, 5})
    add("concat_shuffle_split " + std::to_string(channels), [&](GraphBuilder& b) {
      const auto [left, right] =
          b.concat_shuffle_split("op", image(b, channels, "a"), image(b, channels, "b"));
      return b.mul("product", left, right);
    });
}

OperatorCase finished(GraphBuilder& b, const std::string& name, TensorId output) {
  Result<Graph> graph = b.finish({output});
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
  return {name, std::move(*graph)};
}

void add_losses(std::vector<OperatorCase>& cases) {
  {
    GraphBuilder b("cross_entropy", kBatch, layout());
    const TensorId logits = b.linear("fc", b.global_avg_pool("pool", image(b)), {.out = 5});
    b.cross_entropy("loss", logits, b.input("label"));
    cases.push_back(finished(b, "cross_entropy", logits));
  }
  {
    GraphBuilder b("cross_entropy over rows", kBatch, layout());
    const TensorId logits =
        b.permute("by end", tokens(b, 2), {Axis::kN, Axis::kC, Axis::kW, Axis::kH});
    b.cross_entropy("loss", logits, b.input("span"));
    cases.push_back(finished(b, "cross_entropy over rows", logits));
  }
  {
    GraphBuilder b("bce_with_logits", kBatch, layout());
    const TensorId x = b.linear("fc", b.global_avg_pool("pool", image(b)), {.out = 1});
    b.bce_with_logits("loss", x, b.sigmoid("probability", b.input("rating")));
    cases.push_back(finished(b, "bce_with_logits", b.sigmoid("p", x)));
  }
}

// Tensors with two and three readers, and a fused and an unfused batch norm.
OperatorCase residual_network() {
  GraphBuilder b("residual", kBatch, layout());
  TensorId x = b.conv2d("conv1", b.input("image"), {.out = 6, .pad = 1, .groups = 2, .bias = true});
  const TensorId stem = b.relu("relu1", b.batch_norm("bn1", x));
  TensorId left = b.conv2d("conv2", stem, {.out = 6, .pad = 1});
  left = b.relu("relu2", b.add("add1", left, stem));
  const TensorId right = b.leaky_relu("leaky", b.batch_norm("bn2", stem), kLeakySlope);
  x = b.add("add2", left, right, {.relu = true});
  x = b.avg_pool("avg", x, {.kernel = 3, .stride = 2, .pad = 1});
  const TensorId pooled = b.max_pool("max", x, {.kernel = 2, .stride = 1});
  const TensorId flat = b.linear("fc1", b.flatten("flatten", pooled), {.out = 5});
  const TensorId global = b.linear("fc2", b.global_avg_pool("gap", x), {.out = 5, .bias = false});
  const TensorId logits = b.add("logits", flat, global);
  b.cross_entropy("loss", logits, b.input("label"));
  return finished(b, "residual network", logits);
}

OperatorCase encoder() {
  GraphBuilder b("encoder", kBatch, layout());
  TensorId x = b.dropout("drop", b.layer_norm("norm", tokens(b, 8), 1e-12), 0.1);
  for (int layer = 0; layer < 2; ++layer) {
    const std::string name = std::to_string(layer) + ".";
    TensorId y =
        b.attention(name + "attention", b.linear(name + "q", x, {.out = 8}),
                    b.linear(name + "k", x, {.out = 8}), b.linear(name + "v", x, {.out = 8}),
                    {.heads = 2, .length = b.input("length"), .dropout = 0.1});
    y = b.dropout(name + "drop1", b.linear(name + "out", y, {.out = 8}), 0.1);
    x = b.layer_norm(name + "norm1", b.add(name + "add1", x, y), 1e-12);
    y = b.gelu(name + "gelu", b.linear(name + "up", x, {.out = 16}));
    y = b.drop_path(name + "path", b.linear(name + "down", y, {.out = 8}), 0.3);
    x = b.layer_norm(name + "norm2", b.add(name + "add2", x, y), 1e-12);
  }
  const std::vector<TensorId> ends = b.split("ends", b.linear("qa", x, {.out = 2}), Axis::kC, 2);
  const TensorId logits = b.reshape("logits", b.concat("both", ends, Axis::kN), {6, 1, 1, 5});
  const TensorId first = b.slice("first", b.input("span"), Axis::kC, 0, 1);
  const TensorId last = b.slice("last", b.input("span"), Axis::kC, 1, 1);
  b.cross_entropy("loss", logits, b.concat("labels", {first, last}, Axis::kN));
  return finished(b, "encoder", logits);
}

// Programs, chains and views that follow each other: a gated block, a norm by hand, a softmax over
// another axis, and a mask.
OperatorCase programs() {
  GraphBuilder b("programs", kBatch, layout());
  const TensorId x = b.linear("stem", b.input("image"), {.out = 6});
  const TensorId mean = b.reduce("mean", Reduction::kMean, x, {1, 2}, true);
  const TensorId d = b.binary("centred", Function::kSub, x, mean);
  const TensorId variance = b.variance("variance", x, {1, 2}, true, 0);
  const TensorId istd = b.unary("istd", Function::kRsqrt,
                                b.unary("eps", Function::kAddScalar, variance, {.a = 1e-3F}));
  const TensorId normal = b.binary("normal", Function::kMul, d, istd);
  const TensorId gate = b.unary("silu", Function::kSilu, b.linear("gate", normal, {.out = 6}));
  TensorId y = b.gelu("gelu", b.binary("gated", Function::kMul, gate, normal));
  y = b.scale("scale", b.unary("softplus", Function::kSoftplus, y, {.a = 2.0F}), 0.5F);
  const TensorId flat = b.reshape("flat", y, {kBatch, 48, 6});
  const TensorId top = b.logsumexp("logsumexp", flat, {1}, true);
  const TensorId p = b.unary("p", Function::kExp, b.binary("shifted", Function::kSub, flat, top));
  const TensorId large = b.binary("large", Function::kLess, b.constant("level", {1}, {0.02F}), p);
  const TensorId lowest = b.constant("lowest", {1}, {-1e9F});
  const TensorId scores = b.softmax("softmax", b.where("masked", large, flat, lowest));
  const TensorId pooled = b.reduce("pooled", Reduction::kSum,
                                   b.binary("weighted", Function::kMul, scores, p), {1}, false);
  const TensorId logits = b.linear("fc", pooled, {.out = 5});
  b.cross_entropy("loss", logits, b.input("label"));
  return finished(b, "programs", logits);
}

// Consecutive moves, as in shifted windows, shuffles and feature pyramids.
OperatorCase rearranging() {
  GraphBuilder b("rearranging", kBatch, layout());
  TensorId x = b.conv2d("conv", b.input("image"), {.out = 6, .kernel = 1});
  TensorId y = b.pad("pad w", b.pad("pad h", x, Axis::kH, 0, 3), Axis::kW, 1, 0);
  y = b.roll("roll w", b.roll("roll h", y, Axis::kH, -1), Axis::kW, -1);
  const ImageShape padded = b.image(y);
  y = b.linear("inside", b.window_partition("windows", y, 3), {.out = 6});
  y = b.window_reverse("image", y, 3, padded);
  y = b.roll("back w", b.roll("back h", y, Axis::kH, 1), Axis::kW, 1);
  y = b.slice("crop h", b.slice("crop w", y, Axis::kW, 1, 8), Axis::kH, 0, 6);
  x = b.channel_shuffle("shuffle", b.concat("concat", {x, y}, Axis::kC), 2);
  y = b.permute("pairs", b.reshape("split rows", x, {9, 2, 8, 12}),
                {Axis::kN, Axis::kW, Axis::kH, Axis::kC});
  y = b.linear("merge", b.reshape("merged", y, {3, 3, 4, 48}), {.out = 5});
  x = b.concat("pyramid", {b.upsample2("up", y), x}, Axis::kC);
  const TensorId logits = b.linear("fc", b.flatten("flatten", x), {.out = 5});
  b.cross_entropy("loss", logits, b.input("label"));
  return finished(b, "rearranging", logits);
}

// Tensors that are large enough for threads to share an operator.
OperatorCase wide() {
  GraphBuilder b("wide", kBatch, layout());
  TensorId x = b.gelu("gelu", b.batch_norm("bn", image(b, 256)));
  x = b.layer_norm("ln", b.dropout("dropout", x, 0.2), 1e-5);
  x = b.roll("roll", b.softmax("softmax", x), Axis::kW, 3);
  x = b.max_pool("max", b.upsample2("up", x), {.kernel = 3, .stride = 1, .pad = 1});
  x = b.adaptive_avg_pool("adaptive", b.avg_pool("avg", x, {}), 5, 7);
  x = b.conv2d("conv", x, {.out = 64, .kernel = 1, .bias = true});
  TensorId y = b.embedding("words", b.input("ids"), 10, 3 * 64, {});
  y = b.attention("attention", y, {.heads = 4});
  const TensorId sum = b.add("sum", b.global_avg_pool("pool x", x), b.global_avg_pool("pool y", y));
  const TensorId logits = b.linear("fc", sum, {.out = 5});
  b.cross_entropy("loss", logits, b.input("label"));
  return finished(b, "wide", logits);
}

}  // namespace

namespace {

// 3 x 400 rows with 70 classes; some rows have no label. The labels come after the logits.
Graph vocabulary(const std::string& name, bool bias, bool own_weight, bool views,
                 const LossTerms& terms = {}) {
  constexpr std::int64_t kRows = 400, kClasses = 70, kWidth = 9;
  GraphBuilder b(name, kBatch,
                 {{{"tokens", FieldType::kF32, kRows, 1, 6},
                   {"label", FieldType::kI32, kRows, 1, 1, -1, kClasses - 1}}});
  const TensorId x = b.linear("stem", b.input("tokens"), {.out = kWidth});
  TensorId logits;
  if (own_weight) {
    logits = b.linear("head", x, {.out = kClasses, .bias = bias});
  } else {
    const auto table = [&](const std::string& of, std::int64_t width) {
      std::vector<std::int32_t> rows(static_cast<std::size_t>(kClasses));
      std::iota(rows.rbegin(), rows.rend(), 0);
      const TensorId ids = b.constant_ids(of + " ids", {kClasses, 1, 1, 1}, rows);
      return b.lookup(of, ids, kClasses, width, {WeightInit::Kind::kDeviation, 0.5});
    };
    Op op{.kind = OpKind::kLinear, .name = "head", .in = {x}, .features = kClasses};
    op.tensors.weight = 1;
    op.in.push_back(b.reshape("weight", table("weights", kWidth), {kClasses, kWidth}));
    if (bias) {
      op.tensors.bias = 2;
      op.in.push_back(b.reshape("bias", table("biases", 1), {kClasses}));
    }
    logits = b.apply(std::move(op));
  }
  TensorId rows = logits;
  if (views)
    rows = b.reshape("rows", b.reshape("sample", logits, {kBatch, kRows, kClasses}),
                     {kBatch * kRows, kClasses});
  const TensorId labels = b.reshape("labels", b.input("label"), {kBatch * kRows});
  b.cross_entropy("loss", rows, labels, terms);
  return finished(b, name, views ? rows : logits).graph;
}

}  // namespace

std::vector<OperatorCase> chunked_loss_cases() {
  std::vector<OperatorCase> cases;
  for (const bool bias : {false, true})
    for (const bool own_weight : {false, true})
      for (const bool views : {false, true}) {
        const std::string name = std::string("a vocabulary") + (bias ? ", bias" : "") +
                                 (own_weight ? "" : ", weight is a tensor") +
                                 (views ? ", views" : "");
        cases.push_back({name, vocabulary(name, bias, own_weight, views)});
      }
  const LossTerms terms{.smoothing = 0.1F, .z = 1e-2F};
  const std::string name = "a vocabulary, terms";
  cases.push_back({name, vocabulary(name, true, true, false, terms)});
  return cases;
}

std::vector<OperatorCase> operator_cases() {
  std::vector<OperatorCase> cases;
  add_layers(cases);
  add_element_wise(cases);
  add_products(cases);
  add_recurrent(cases);
  add_pools(cases);
  add_moves(cases);
  add_losses(cases);
  for (OperatorCase& c : program_cases()) cases.push_back(std::move(c));
  return cases;
}

std::vector<OperatorCase> network_cases() {
  std::vector<OperatorCase> cases;
  cases.push_back(residual_network());
  cases.push_back(encoder());
  cases.push_back(wide());
  cases.push_back(rearranging());
  cases.push_back(programs());
  return cases;
}

}  // namespace es::test
