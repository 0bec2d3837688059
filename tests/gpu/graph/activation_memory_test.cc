// The memory of activations that are stored as bf16, from the memory plan of whole models.
#include <doctest/doctest.h>

#include "gpu/graph/fuse.h"
#include "gpu/graph/memory_plan.h"
#include "gpu/models/models.h"
#include "tests/gpu/models/samples_by_formula.h"

TEST_SUITE("gpu/graph/activation_memory") {
  using namespace es::gpu;

  // Floats of the arena.
  std::int64_t arena_of(const std::string& model, std::int64_t batch, bool bf16) {
    const es::ModelSpec spec{.name = model, .classes = 10};
    es::test::SampleSizes sizes;
    sizes.side = 64;
    sizes.tokens = 128;
    Graph graph = *build_model(spec, batch, es::test::sample_layout(task_of(spec), sizes));
    graph.bf16 = bf16;
    return plan_memory(compile(std::move(graph))).arena_floats;
  }

  TEST_CASE("the arena of large models is about half as long with bf16") {
    for (const std::string model : {"resnet50", "vgg19", "swin_t", "bert"}) {
      CAPTURE(model);
      const double fp32 = static_cast<double>(arena_of(model, 16, false));
      const double bf16 = static_cast<double>(arena_of(model, 16, true));
      MESSAGE(model, ": ", bf16 / fp32);
      CHECK(bf16 < 0.65 * fp32);
      CHECK(bf16 > 0.45 * fp32);
    }
  }
}
