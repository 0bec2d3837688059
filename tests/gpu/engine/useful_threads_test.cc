// Which steps are worth a second thread.
#include "gpu/engine/useful_threads.h"

#include <doctest/doctest.h>

#include "gpu/engine/engine.h"
#include "tests/gpu/models/samples_by_formula.h"

TEST_SUITE("gpu/useful threads") {
  using namespace es;

  std::uint32_t threads_for(const ModelSpec& model, std::uint32_t batch, std::uint32_t threads) {
    test::SampleSizes sizes;
    sizes.side = 32;
    const SampleLayout layout = test::sample_layout(task_of(model), sizes);
    JobSpec spec;
    spec.model = model;
    spec.batch_size = batch;
    const auto engine = gpu::Engine::create(spec, layout, {});
    REQUIRE(engine.ok());
    return gpu::useful_threads((*engine)->graph(), threads);
  }

  TEST_CASE("a step of microseconds has one thread, and a longer one has all") {
    CHECK(threads_for({.name = "neumf"}, 1024, 2) == 1);
    CHECK(threads_for({.name = "neumf"}, 1024, 4) == 1);
    CHECK(threads_for({.name = "mlp", .size = "tiny"}, 4, 2) == 1);
    CHECK(threads_for({.name = "resnet18", .width = 16}, 32, 2) == 2);
    CHECK(threads_for({.name = "shufflenetv2"}, 32, 4) == 4);
    CHECK(threads_for({.name = "shufflenetv2"}, 32, 1) == 1);
  }
}
