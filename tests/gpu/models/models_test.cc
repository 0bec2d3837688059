#include "gpu/models/models.h"

#include <doctest/doctest.h>

#include <algorithm>

TEST_SUITE("gpu/models") {
  using namespace es;
  using namespace es::gpu;

  bool has(const Graph& g, const std::string& name) {
    return std::any_of(g.table.params().begin(), g.table.params().end(),
                       [&](const ParamInfo& p) { return p.name == name; });
  }

  TEST_CASE("resnet18 has torchvision's names and the known number of parameters") {
    const Result<Graph> g = build_model({.name = "resnet18", .classes = 10}, {2, 32, 32, 3});
    REQUIRE(g.ok());
    CHECK(g->table.parameter_count() == 11'173'962);  // CIFAR stem
    CHECK(g->table.stat_floats() == 9'600);
    for (const char* name :
         {"conv1.weight", "bn1.bias", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight",
          "layer2.0.downsample.1.bias", "layer4.1.bn2.weight", "fc.weight", "fc.bias"})
      CHECK_MESSAGE(has(*g, name), name);
    CHECK_FALSE(has(*g, "layer1.0.downsample.0.weight"));
  }

  TEST_CASE("the small models have the sizes that their header states") {
    CHECK(build_model({.name = "small_cnn"}, {2, 28, 28, 1})->table.parameter_count() == 105'914);
    CHECK(build_model({.name = "mlp"}, {2, 28, 28, 1})->table.parameter_count() == 118'282);
  }

  TEST_CASE("an unknown model and images that are too small are refused") {
    const auto unknown = build_model({.name = "vgg"}, {2, 28, 28, 1});
    REQUIRE_FALSE(unknown.ok());
    CHECK(unknown.error().message == "model.name = \"vgg\": allowed is small_cnn, resnet18, mlp");
    const auto small = build_model({.name = "small_cnn"}, {2, 3, 3, 1});
    REQUIRE_FALSE(small.ok());
    CHECK(small.error().message.find("max_pool \"pool2\"") != std::string::npos);
  }
}
