// Every built-in model has the same bits whether parts of it are computed again or not, and needs
// less memory if they are; and the memory of deep models grows with the root of their depth.
#include "gpu/graph/recompute.h"

#include <doctest/doctest.h>

#include <cmath>

#include "gpu/graph/blocks.h"
#include "gpu/graph/fuse.h"
#include "gpu/graph/memory_plan.h"
#include "gpu/models/models.h"
#include "proto/base/job_fields.h"
#include "tests/gpu/models/samples_by_formula.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/models/recompute") {
  using namespace es;
  using namespace es::gpu;
  using test::StepRig;

  constexpr std::int64_t kBatch = 3;
  constexpr test::SampleSizes kSizes{.side = 64, .tokens = 24};

  Graph model(const ModelSpec& spec, std::int64_t batch, const test::SampleSizes& sizes,
              bool bf16) {
    Result<Graph> graph =
        build_model(spec, batch, test::sample_layout(task_of({.name = spec.name}), sizes));
    REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
    graph->bf16 = bf16;
    return *std::move(graph);
  }

  std::int64_t arena(const Graph& graph) {
    return plan_memory(compile(graph)).arena_floats;
  }

  TEST_CASE("every model in its tiny size has the same bits with recompute = blocks") {
    const std::uint64_t seed = test::seed("recomputed models");
    int less = 0, all = 0;
    for (const TaskNames& task : task_names())
      for (const std::string& name : task.models)
        for (const bool bf16 : {false, true}) {
          CAPTURE(name);
          CAPTURE(bf16);
          const Graph graph = model({.name = name, .size = "tiny"}, kBatch, kSizes, bf16);
          const Graph cut = cut_into_blocks(graph);
          StepRig kept(compile(graph), seed), again(compile(cut), seed);
          kept.words = again.words = test::reference_batch(task_of({.name = name}), kSizes, kBatch);
          CHECK(std::isfinite(kept.run()));
          CHECK(again.step_bits() == kept.step_bits());
          CHECK(again.evaluation_bits() == kept.evaluation_bits());
          CHECK(arena(cut) <= arena(graph));
          less += arena(cut) < arena(graph);
          ++all;
        }
    // Tiny models have few layers, so some have nothing to save.
    CHECK(2 * less > all);
  }

  // The activations that are kept from the forward pass to the backward pass are those between the
  // blocks, and one block, so they grow with the root of the number of layers.
  TEST_CASE("the arena of models in published size falls to about the root of their depth") {
    struct Deep {
      const char* name;
      std::int64_t batch, tokens;
      double share;
    };
    for (const Deep& deep : {Deep{"gpt2", 2, 512, 0.23}, Deep{"gpt2_xl", 1, 256, 0.14},
                             Deep{"llama", 2, 512, 0.20}, Deep{"bert", 4, 128, 0.19},
                             Deep{"bert_large", 4, 128, 0.14}, Deep{"electra", 4, 128, 0.19},
                             Deep{"resnet152", 4, 0, 0.25}, Deep{"swin_b", 4, 0, 0.17}}) {
      CAPTURE(deep.name);
      test::SampleSizes sizes{.side = 64};
      if (deep.tokens != 0) sizes.tokens = deep.tokens;
      sizes.vocabulary = 1000;  // whose logits are small beside the layers
      const Graph graph = model({.name = deep.name}, deep.batch, sizes, false);
      const double share = double(arena(cut_into_blocks(graph))) / double(arena(graph));
      CHECK(share < deep.share);
    }
  }
}
