// Recomputation in the backward pass: it never changes a bit, and it saves memory.
#include "gpu/graph/recompute.h"

#include <doctest/doctest.h>

#include <random>

#include "gpu/graph/blocks.h"
#include "gpu/graph/builder.h"
#include "gpu/graph/fuse.h"
#include "gpu/graph/memory_plan.h"
#include "tests/gpu/graph/operator_cases.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/graph/recompute") {
  using namespace es::gpu;
  using es::test::OperatorCase;
  using es::test::StepRig;

  Graph with_random_regions(Graph graph, std::mt19937_64 & random) {
    const std::uint64_t regions = 1 + random() % 4;
    for (Op& op : graph.ops) op.region = static_cast<std::uint32_t>(random() % (regions + 1));
    return graph;
  }

  TEST_CASE("any regions give the same bits in training and evaluation") {
    const std::uint64_t seed = es::test::seed("regions");
    std::mt19937_64 random(seed);
    std::vector<OperatorCase> cases = es::test::operator_cases();
    for (OperatorCase& c : es::test::network_cases()) cases.push_back(std::move(c));
    std::size_t more_operators = 0;
    for (const OperatorCase& c : cases) {
      INFO(c.name);
      StepRig plain(compile(c.graph), seed);
      const Program program = compile(with_random_regions(c.graph, random));
      more_operators += program.graph.ops.size() > compile(c.graph).graph.ops.size();
      StepRig recomputing(program, seed, {.threads = 2});
      CHECK(recomputing.step_bits() == plain.step_bits());
      CHECK(recomputing.evaluation_bits() == plain.evaluation_bits());
    }
    CHECK(more_operators > cases.size() / 8);
  }

  es::SampleLayout token_fields() {
    return {{{"tokens", es::FieldType::kF32, 64, 1, 8},
             {"label", es::FieldType::kI32, 64, 1, 1, 0, 7}}};
  }

  // A network of blocks, of which every `per_region` form a region; 0: there are no regions.
  Graph blocks(int count, int per_region) {
    GraphBuilder b("net", 2, token_fields());
    TensorId x = b.linear("in", b.input("tokens"), {.out = 8});
    for (int i = 0; i < count; ++i) {
      const std::string name = "block" + std::to_string(i) + ".";
      b.set_region(per_region == 0 ? 0 : static_cast<std::uint32_t>(1 + i / per_region));
      TensorId y = b.layer_norm(name + "norm", x, 1e-5);
      y = b.gelu(name + "gelu", b.linear(name + "up", y, {.out = 32}));
      y = b.dropout(name + "drop", b.linear(name + "down", y, {.out = 8}), 0.25);
      x = b.add(name + "add", x, y);
    }
    b.set_region(0);
    b.cross_entropy("loss", x, b.input("label"));
    return *b.finish({x});
  }

  TEST_CASE("memory grows with the root of the number of blocks") {
    const std::uint64_t seed = es::test::seed("blocks");
    const Program kept = compile(blocks(16, 0)), recomputed = compile(blocks(16, 4));
    CHECK(plan_memory(recomputed).arena_floats * 5 < plan_memory(kept).arena_floats * 2);
    StepRig plain(kept, seed), other(recomputed, seed);
    CHECK(other.step_bits() == plain.step_bits());
  }

  TEST_CASE("what leaves a region stays, and losses are not computed again") {
    const auto copies = [](const Program& program, const std::string& name) {
      int count = 0;
      for (const Op& op : program.graph.ops)
        count +=
            op.name == name && (op.kind == OpKind::kLinear || op.kind == OpKind::kCrossEntropy);
      return count;
    };
    Graph graph = blocks(2, 1);
    graph.ops.back().region = 2;  // the loss
    const Program program = compile(graph);
    CHECK(copies(program, "block0.up") == 2);
    CHECK(copies(program, "block0.down") == 1);  // no gradient of the block reads its result
    CHECK(copies(program, "in") == 1);
    CHECK(copies(program, "loss") == 1);
  }

  // Blocks of moves, views and a parameter that is a tensor, each of which is a region.
  Graph moving_blocks(int count, bool regions) {
    GraphBuilder b("net", 2, token_fields());
    TensorId x = b.linear("in", b.input("tokens"), {.out = 8});
    for (int i = 0; i < count; ++i) {
      const std::string name = "block" + std::to_string(i) + ".";
      b.set_region(regions ? static_cast<std::uint32_t>(1 + i) : 0);
      const ParamId factor = b.parameter({.name = name + "factor",
                                          .torch_shape = {8},
                                          .order = {.outer = 8},
                                          .init = {.constant = 1.0F}});
      TensorId y = b.binary(name + "mul", Function::kMul, x, b.parameter_tensor(factor, {8}));
      y = b.reshape(name + "view", b.concat(name + "twice", {y, b.gelu(name + "gelu", y)}, 3),
                    {2, 64, 2, 8});
      y = b.binary(name + "square", Function::kMul, y, b.permute(name + "turn", y, {0, 1, 2, 3}));
      y = b.slice(name + "half", b.roll(name + "roll", y, 1, 1), 2, 1, 1);
      x = b.add(name + "add", x, b.reshape(name + "back", y, {2, 64, 1, 8}));
    }
    b.set_region(0);
    b.cross_entropy("loss", x, b.input("label"));
    return *b.finish({x});
  }

  TEST_CASE("moves, views and parameters of a region are computed again") {
    const std::uint64_t seed = es::test::seed("moves");
    const Graph graph = moving_blocks(8, true);
    for (const Op& op : graph.ops)
      if (op.name.starts_with("block")) CHECK_MESSAGE(op.region != 0, op.name);
    const Program kept = compile(moving_blocks(8, false)), recomputed = compile(graph);
    CHECK(plan_memory(recomputed).arena_floats * 2 < plan_memory(kept).arena_floats);
    StepRig plain(kept, seed), other(recomputed, seed);
    CHECK(other.step_bits() == plain.step_bits());
    CHECK(other.evaluation_bits() == plain.evaluation_bits());
  }

  TEST_CASE("blocks are chosen that need less memory, and no bit changes") {
    const std::uint64_t seed = es::test::seed("chosen blocks");
    for (const OperatorCase& c : es::test::network_cases()) {
      INFO(c.name);
      const Program kept = compile(c.graph), cut = compile(cut_into_blocks(c.graph));
      CHECK(plan_memory(cut).arena_floats <= plan_memory(kept).arena_floats);
      StepRig plain(kept, seed), other(cut, seed);
      CHECK(other.step_bits() == plain.step_bits());
    }
    const Graph deep = blocks(16, 0);
    const std::int64_t kept = plan_memory(compile(deep)).arena_floats;
    const std::int64_t cut = plan_memory(compile(cut_into_blocks(deep))).arena_floats;
    CHECK(cut * 3 < kept);
    CHECK(plan_memory(compile(cut_into_blocks(blocks(1, 0)))).arena_floats > 0);
  }
}
