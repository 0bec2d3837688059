// Adapters (LoRA) of model programs.
#include "gpu/import/adapters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "gpu/graph/fuse.h"
#include "gpu/import/check.h"
#include "gpu/import/import.h"
#include "gpu/models/models.h"
#include "tests/gpu/import/program_writer.h"
#include "tests/gpu/support/step_rig.h"

TEST_SUITE("gpu/import/adapters") {
  using namespace es;
  using namespace es::gpu;
  using es::test::ProgramWriter;
  using es::test::StepRig;

  // Dropout, two linear layers, one of them used twice, and a product with a weight [in,out].
  ModelProgram network() {
    ProgramWriter w;
    ValueId x = w.node("dropout", {w.input("x", {6})}, {{"p", 0.25}, {"site", std::int64_t{4}}});
    const ValueId shared = w.parameter("shared.weight", {6, 6});
    x = w.node("relu", {w.node("linear", {x, shared})});
    x = w.node("relu", {w.node("linear", {x, shared})});
    x = w.node("matmul", {x, w.parameter("conv1d.weight", {6, 5})});
    x = w.linear("head", x, 4);
    w.classify(x, w.ids("label", {}, 3));
    return w.program;
  }

  LoraSpec lora_of(std::vector<std::string> targets, double dropout = 0.0) {
    return {.rank = 2, .alpha = 6.0, .dropout = dropout, .targets = std::move(targets)};
  }

  std::string error_of(const ModelProgram& program, const LoraSpec& lora) {
    const auto adapted = with_adapters(program, lora);
    REQUIRE_FALSE(adapted.ok());
    return adapted.error().message;
  }

  std::vector<std::string> trained_names(const Graph& graph) {
    std::vector<std::string> names;
    for (const ParamInfo& p : graph.table.trained()) names.push_back(p.name);
    std::ranges::sort(names);
    return names;
  }

  TEST_CASE("only the adapters are trained, and layers that share a weight share them") {
    const auto adapted = with_adapters(network(), lora_of({"shared", "conv1d.*"}));
    REQUIRE_MESSAGE(adapted.ok(), (adapted.ok() ? "" : adapted.error().message));
    REQUIRE(check_program(*adapted).ok());
    const auto graph = import_model(*adapted, 3);
    REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
    CHECK(trained_names(*graph) ==
          std::vector<std::string>{"conv1d.lora_A.weight", "conv1d.lora_B.weight",
                                   "shared.lora_A.weight", "shared.lora_B.weight"});
    for (const ParamInfo& p : graph->table.params()) {
      CAPTURE(p.name);
      CHECK(p.trained == is_adapter(p.name));
      const auto shape = [&](std::int64_t rows, std::int64_t columns) {
        return p.torch_shape == std::vector<std::int64_t>{rows, columns};
      };
      if (p.name == "conv1d.lora_A.weight") CHECK(shape(2, 6));
      if (p.name == "conv1d.lora_B.weight") CHECK(shape(5, 2));
      // As peft begins: A is uniform with the bound 1 / sqrt(in), and B is zero.
      if (!p.trained) continue;
      CHECK(p.init.constant == 0.0F);
      CHECK(p.init.bound == doctest::Approx(p.name.ends_with("A.weight") ? 1 / std::sqrt(6.0) : 0));
    }
    CHECK(module_of_a("conv1d.lora_A.weight") == "conv1d");
    CHECK(module_of_a("conv1d.lora_B.weight").empty());
  }

  TEST_CASE("nothing of the backward pass computes a gradient of a frozen parameter") {
    const auto adapted = with_adapters(network(), lora_of({"*"}));
    REQUIRE(adapted.ok());
    const Program program = compile(*import_model(*adapted, 3));
    const std::int64_t trained = program.graph.table.trained_floats();
    CHECK(trained < program.graph.table.total_floats());
    StepRig rig(program, 7);
    std::fill_n(rig.grads.data(), rig.grads.floats(), 5.0F);
    (void)rig.step_bits();
    for (std::int64_t i = trained; i < rig.grads.floats(); ++i) CHECK(rig.grads.data()[i] == 5.0F);
  }

  // A language model of 6 x 128 rows, with adapters and the terms of its loss.
  Program language_model(std::int64_t chunked_logits) {
    const ModelSpec spec{.name = "gpt2", .size = "tiny", .label_smoothing = 0.1, .z_loss = 1e-3};
    const SampleLayout layout{{{"ids", FieldType::kI32, 128, 1, 1, 0, 39},
                               {"labels", FieldType::kI32, 128, 1, 1, 0, 39}}};
    const auto program = write_model(spec, 6, layout);
    REQUIRE_MESSAGE(program.ok(), (program.ok() ? "" : program.error().message));
    const auto adapted = with_adapters(*program, lora_of({"*.c_attn"}));
    REQUIRE(adapted.ok());
    return compile(*import_model(*adapted, 6), chunked_logits);
  }

  TEST_CASE("the logits of a frozen layer are not in memory together, either") {
    const Program parts = language_model(1), whole = language_model(INT64_MAX);
    const auto chunked = [](const Program& program) {
      return std::ranges::count(program.graph.ops, OpKind::kLinearCrossEntropy, &Op::kind);
    };
    CHECK(chunked(parts) == 1);
    CHECK(chunked(whole) == 0);
    CHECK(StepRig(parts, 3).step_bits() == StepRig(whole, 3).step_bits());
    CHECK(StepRig(parts, 3).evaluation_bits() == StepRig(whole, 3).evaluation_bits());
  }

  TEST_CASE("dropout of an adapter draws numbers of its own") {
    const auto adapted = with_adapters(network(), lora_of({"*"}, 0.5));
    REQUIRE(adapted.ok());
    REQUIRE(check_program(*adapted).ok());
    std::vector<std::int64_t> sites;
    for (const ModelNode& node : adapted->nodes)
      if (node.kind == "dropout")
        for (const ModelAttribute& a : node.attributes)
          if (a.name == "site") sites.push_back(std::get<std::int64_t>(a.value));
    CHECK(sites == std::vector<std::int64_t>{4, 5, 6, 7, 8});
  }

  TEST_CASE("a target that names no linear layer is refused, and so are other wrong models") {
    CHECK(error_of(network(), lora_of({"head", "*q_proj"})) ==
          "lora.targets[1] = \"*q_proj\": allowed is the name of a linear layer, such as \"head\"");
    ProgramWriter w;
    w.batch_norm("bn", w.conv("conv", w.input("x", {1, 4, 4}), 2, 3, 1, 1));
    CHECK(error_of(w.program, lora_of({"head"}))
              .starts_with("lora.rank = 2: allowed is 0 for a model with running statistics"));
    ModelProgram counting = network();
    counting.states = {{.name = "steps", .dtype = "F32", .value = 0}};
    CHECK(error_of(counting, lora_of({"head"})) ==
          "lora.rank = 2: allowed is 0 for a model with states, such as \"steps\"");
    const auto once = with_adapters(network(), lora_of({"head"}));
    CHECK(error_of(*once, lora_of({"head"}))
              .starts_with("lora.rank = 2: allowed is 0 for a model that has adapters"));
  }
}
