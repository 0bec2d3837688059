#include "gpu/graph/builder.h"

#include <doctest/doctest.h>

TEST_SUITE("gpu/graph/builder") {
  using namespace es::gpu;

  std::string error_of(es::Result<Graph> graph) {
    return graph.ok() ? "accepted" : graph.error().message;
  }

  TEST_CASE("shapes, parameters and statistics follow from the calls") {
    GraphBuilder b("net", {2, 8, 8, 3});
    TensorId x = b.conv2d("conv", b.input(), {.out = 6, .kernel = 3, .stride = 2, .pad = 1});
    CHECK(x == 1);
    x = b.batch_norm("bn", x, {.relu = true});
    x = b.max_pool("pool", x, {.kernel = 2, .stride = 2});
    x = b.flatten("flatten", x);
    const es::Result<Graph> graph = b.finish(b.linear("fc", x, {.out = 5}));
    REQUIRE(graph.ok());
    CHECK(graph->shape(1) == TensorShape{2, 4, 4, 6});
    CHECK(graph->shape(graph->logits) == TensorShape{2, 1, 1, 5});
    std::vector<std::string> names;
    for (const ParamInfo& p : graph->table.params()) names.push_back(p.name);
    CHECK(names ==
          std::vector<std::string>{"conv.weight", "bn.weight", "bn.bias", "fc.weight", "fc.bias"});
    CHECK(graph->table[0].torch_shape == std::vector<std::int64_t>{6, 3, 3, 3});
    CHECK(graph->table[3].torch_shape == std::vector<std::int64_t>{5, 24});
    CHECK(graph->table[3].order.spatial == 4);  // columns permute on import
    CHECK(graph->table[3].order.channels == 6);
    CHECK(graph->table.stats()[1].name == "bn.running_var");
  }

  TEST_CASE("the first shape error is reported with the operator and what does not fit") {
    GraphBuilder b("net", {2, 4, 4, 3});
    const TensorId x = b.conv2d("stem", b.input(), {.out = 4, .kernel = 5});
    const TensorId y = b.add("later", x, b.input());
    CHECK(error_of(b.finish(y)) ==
          "model net: conv2d \"stem\": kernel 5 with pad 0 is larger than its input [2,4,4,3]");
  }

  TEST_CASE("every rule on shapes has its own message") {
    const TensorShape image{2, 4, 4, 3};
    const auto message = [&](auto build) {
      GraphBuilder b("net", image);
      return error_of(b.finish(build(b)));
    };
    const auto contains = [](const std::string& text, const char* part) {
      return text.find(part) != std::string::npos;
    };
    CHECK(contains(
        message([](GraphBuilder& b) { return b.conv2d("c", b.input(), {.out = 4, .groups = 2}); }),
        "multiples of groups = 2"));
    CHECK(contains(message([](GraphBuilder& b) { return b.linear("l", b.input(), {.out = 4}); }),
                   "flatten it first"));
    CHECK(contains(message([](GraphBuilder& b) {
                     return b.max_pool("p", b.input(), {.kernel = 6, .stride = 1});
                   }),
                   "does not fit"));
    CHECK(contains(message([](GraphBuilder& b) {
                     return b.add("a", b.input(), b.max_pool("p", b.input(), {}));
                   }),
                   "must be equal"));
    CHECK(contains(
        message([](GraphBuilder& b) { return b.batch_norm("n", b.flatten("f", b.input())); }),
        "normalise before flattening"));
    CHECK(contains(message([](GraphBuilder& b) { return b.input(); }), "logits"));
    CHECK(contains(message([](GraphBuilder& b) {
                     b.relu("unused", b.input());
                     return b.linear("l", b.flatten("f", b.input()), {.out = 4});
                   }),
                   "\"unused\": nothing reads its output"));
  }

  TEST_CASE("an input with an empty dimension is refused") {
    GraphBuilder b("net", {2, 0, 4, 3});
    CHECK(error_of(b.finish(b.linear("l", b.flatten("f", b.input()), {.out = 4})))
              .find("input shape [2,0,4,3]") != std::string::npos);
  }
}
