#include "gpu/graph/builder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

TEST_SUITE("gpu/graph/builder") {
  using namespace es::gpu;
  using es::FieldType;
  using es::SampleLayout;

  SampleLayout layout() {
    return {{{"image", FieldType::kF32, 4, 4, 3},
             {"label", FieldType::kI32, 1, 1, 1, 0, 4},
             {"ids", FieldType::kI32, 6, 1, 1, 0, 99},
             {"length", FieldType::kI32, 1, 1, 1, 0, 6}}};
  }

  std::string error_of(es::Result<Graph> graph) {
    return graph.ok() ? "accepted" : graph.error().message;
  }

  TEST_CASE("shapes, parameters and statistics follow from the calls") {
    GraphBuilder b(
        "net", 2,
        {{{"image", FieldType::kF32, 8, 8, 3}, {"label", FieldType::kI32, 1, 1, 1, 0, 4}}});
    TensorId x = b.conv2d("conv", b.input("image"), {.out = 6, .kernel = 3, .stride = 2, .pad = 1});
    CHECK(b.shape(x) == TensorShape{2, 4, 4, 6});
    x = b.batch_norm("bn", x, {Activation::kRelu});
    x = b.max_pool("pool", x, {.kernel = 2, .stride = 2});
    x = b.linear("fc", b.flatten("flatten", x), {.out = 5});
    b.cross_entropy("loss", x, b.input("label"));
    const es::Result<Graph> graph = b.finish({x});
    REQUIRE(graph.ok());
    CHECK(graph->shape(graph->outputs[0]) == TensorShape{2, 1, 1, 5});
    CHECK(graph->shape(graph->inputs[1]) == TensorShape{2, 1, 1, 1});
    std::vector<std::string> names;
    for (const ParamInfo& p : graph->table.params()) names.push_back(p.name);
    CHECK(names ==
          std::vector<std::string>{"conv.weight", "bn.weight", "bn.bias", "fc.weight", "fc.bias"});
    CHECK(graph->table[0].torch_shape == std::vector<std::int64_t>{6, 3, 3, 3});
    CHECK(graph->table[3].torch_shape == std::vector<std::int64_t>{5, 24});
    CHECK(graph->table[3].order.spatial == 4);  // The columns are permuted at import.
    CHECK(graph->table[3].order.channels == 6);
    CHECK(graph->table.stats()[1].name == "bn.running_var");
  }

  TEST_CASE("initial weights have the published bounds") {
    GraphBuilder b("net", 2, layout());
    TensorId x = b.linear("default", b.input("image"), {.out = 12});
    x = b.linear("xavier", x, {.out = 6, .init = {WeightInit::Kind::kXavier}});
    x = b.conv2d("fan_out", x, {.out = 4, .bias = true, .init = {WeightInit::Kind::kFanOutRelu}});
    x = b.add("sum", b.global_avg_pool("pool", x),
              b.global_avg_pool("words", b.embedding("words", b.input("ids"), 100, 4,
                                                     {WeightInit::Kind::kDeviation, 0.02})));
    b.mse("loss", x, b.constant("target", {2, 1, 1, 4}, std::vector<float>(8, 1.0F)));
    const es::Result<Graph> graph = b.finish({x});
    REQUIRE(graph.ok());
    std::vector<double> bounds;
    for (const ParamInfo& p : graph->table.params()) bounds.push_back(double(p.init.bound));
    const double fan3 = 1 / std::sqrt(3.0);
    const std::vector<double> expected = {
        fan3, fan3, std::sqrt(6.0 / 18), 0, std::sqrt(6.0 / 36), 0, 0.02 * std::sqrt(3.0)};
    REQUIRE(bounds.size() == expected.size());
    for (std::size_t i = 0; i < bounds.size(); ++i)
      CHECK(bounds[i] == doctest::Approx(expected[i]).epsilon(1e-7));
  }

  TEST_CASE("the first error in shapes is reported with the operator and the dimensions") {
    GraphBuilder b("net", 2, layout());
    const TensorId x = b.conv2d("stem", b.input("image"), {.out = 4, .kernel = 5});
    const TensorId y = b.add("later", x, b.input("image"));
    b.cross_entropy("loss", y, b.input("label"));
    CHECK(error_of(b.finish({y})) ==
          "model net: conv2d \"stem\": kernel 5 with pad 0 is larger than its input [2,4,4,3]");
  }

  // The error of a model whose result is compared with zeros.
  std::string message(const std::function<TensorId(GraphBuilder&)>& build) {
    GraphBuilder b("net", 2, layout());
    const TensorId x = build(b);
    b.mse("loss", x,
          b.constant("zero", b.shape(x), std::vector<float>(std::size_t(b.shape(x).count()))));
    return error_of(b.finish({x}));
  }

  void check_error(const std::string& part, const std::function<TensorId(GraphBuilder&)>& build) {
    const std::string text = message(build);
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  }

  TensorId image(GraphBuilder & b) {
    return b.linear("stem", b.input("image"), {.out = 4});
  }

  TEST_CASE("every rule on shapes has its own message") {
    CHECK(message(image) == "accepted");
    check_error("no such field, only image, label, ids, length",
                [](GraphBuilder& b) { return b.input("boxes"); });
    check_error("multiples of groups = 3",
                [](GraphBuilder& b) { return b.conv2d("c", image(b), {.out = 6, .groups = 3}); });
    check_error("holds integers", [](GraphBuilder& b) { return b.relu("r", b.input("label")); });
    check_error("does not fit", [](GraphBuilder& b) {
      return b.max_pool("p", image(b), {.kernel = 6, .stride = 1});
    });
    check_error("must be equal", [](GraphBuilder& b) {
      const TensorId x = image(b);
      return b.mul("m", x, b.max_pool("p", x, {}));
    });
    check_error("only element-wise",
                [](GraphBuilder& b) { return b.batch_norm("n", b.flatten("f", image(b))); });
    check_error("move before flattening", [](GraphBuilder& b) {
      return b.slice("s", b.flatten("f", image(b)), Axis::kC, 0, 2);
    });
    check_error("row [2,4,4,4] must be [1,4,4,4]", [](GraphBuilder& b) {
      const TensorId x = image(b);
      return b.add_rows("a", x, x);
    });
    check_error("p = 1 ", [](GraphBuilder& b) { return b.dropout("d", image(b), 1.0); });
    check_error("[n,h,m,k] and [n,h,p,k]", [](GraphBuilder& b) {
      const TensorId x = image(b);
      return b.matmul("m", x, b.linear("l", x, {.out = 3}), true);
    });
    check_error("another one of this name",
                [](GraphBuilder& b) { return b.linear("stem", image(b), {.out = 4}); });
  }

  TEST_CASE("errors of moves, lookups and attention say what they accept") {
    check_error("may differ along c only", [](GraphBuilder& b) {
      const TensorId x = image(b);
      return b.concat("c", {x, b.max_pool("p", x, {})}, Axis::kC);
    });
    check_error("[3, 5) along h is not inside [2,4,4,4]",
                [](GraphBuilder& b) { return b.slice("s", image(b), Axis::kH, 3, 2); });
    check_error("multiple of parts = 3",
                [](GraphBuilder& b) { return b.split("s", image(b), Axis::kC, 3)[1]; });
    check_error("each of n, h, w, c once", [](GraphBuilder& b) {
      return b.permute("p", image(b), {Axis::kN, Axis::kN, Axis::kW, Axis::kC});
    });
    check_error("multiples of the side 3",
                [](GraphBuilder& b) { return b.window_partition("w", image(b), 3); });
    check_error("same number of elements", [](GraphBuilder& b) {
      return b.reshape("r", image(b), {2, 4, 4, 5});
    });
    check_error("ids from 0 to 99 do not fit its 50 rows",
                [](GraphBuilder& b) { return b.embedding("e", b.input("ids"), 50, 4, {}); });
    check_error("heads = 3", [](GraphBuilder& b) {
      const TensorId x = b.embedding("e", b.input("ids"), 100, 12, {});
      return b.attention("a", x, {.heads = 3});
    });
    check_error("2 integers of at least 1", [](GraphBuilder& b) {
      const TensorId x = b.embedding("e", b.input("ids"), 100, 12, {});
      return b.attention("a", x, {.heads = 2, .length = b.input("length")});
    });
  }

  TEST_CASE("a model has one loss, and every part of it is used") {
    const auto finish = [](const std::function<TensorId(GraphBuilder&)>& build) {
      GraphBuilder b("net", 2, layout());
      const TensorId x = build(b);
      return error_of(b.finish({x}));
    };
    const auto logits = [](GraphBuilder& b, std::int64_t classes) {
      return b.linear("fc", b.global_avg_pool("pool", b.input("image")), {.out = classes});
    };
    CHECK(finish(image).find("allowed are cross_entropy, bce_with_logits, mse and yolo") !=
          std::string::npos);
    CHECK(finish([&](GraphBuilder& b) {
            const TensorId x = logits(b, 4);
            b.cross_entropy("loss", x, b.input("label"));
            return x;
          }).find("labels up to 4 do not fit the 4 classes") != std::string::npos);
    const auto with_loss = [&](const std::function<void(GraphBuilder&, TensorId)>& more) {
      return finish([&](GraphBuilder& b) {
        const TensorId x = logits(b, 5);
        b.cross_entropy("loss", x, b.input("label"));
        more(b, x);
        return x;
      });
    };
    CHECK(with_loss([](GraphBuilder&, TensorId) {}) == "accepted");
    CHECK(with_loss([](GraphBuilder& b, TensorId x) {
            b.cross_entropy("second", x, b.input("label"));
          }).find("has a loss already") != std::string::npos);
    CHECK(with_loss([](GraphBuilder& b, TensorId x) {
            b.relu("unused", x);
          }).find("\"unused\": nothing reads its output") != std::string::npos);
    GraphBuilder b("net", 2, layout());
    const TensorId x = logits(b, 5);
    b.cross_entropy("loss", x, b.input("label"));
    const TensorId other = b.linear("extra", x, {.out = 2});
    CHECK(error_of(b.finish({other})).find("the loss does not depend on its parameters") !=
          std::string::npos);
  }

  TEST_CASE("an input with an empty dimension is refused") {
    GraphBuilder b("net", 2, {{{"image", FieldType::kF32, 0, 4, 3}}});
    CHECK(error_of(b.finish({b.input("image")})).find("shape [2,0,4,3]") != std::string::npos);
  }

  TEST_CASE("slices of one tensor that do not overlap become one operator") {
    GraphBuilder b("net", 2, layout());
    const TensorId x = image(b);
    const TensorId a = b.slice("a", x, Axis::kH, 0, 2), c = b.slice("c", x, Axis::kH, 2, 2);
    const TensorId overlapping = b.slice("o", x, Axis::kH, 1, 2);
    const TensorId y = b.add("sum", b.add("ac", a, c), overlapping);
    b.mse("loss", y, b.constant("zero", b.shape(y), std::vector<float>(64)));
    const es::Result<Graph> graph = b.finish({y});
    REQUIRE(graph.ok());
    std::vector<std::size_t> outputs;
    for (const Op& op : graph->ops)
      if (op.kind == OpKind::kMove) outputs.push_back(op.out.size());
    CHECK(outputs == std::vector<std::size_t>{2, 1});
  }
}
