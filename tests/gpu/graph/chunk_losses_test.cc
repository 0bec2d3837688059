// Cross entropy over many classes, some rows at a time.
#include "gpu/graph/chunk_losses.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "gpu/graph/builder.h"
#include "gpu/graph/fuse.h"
#include "gpu/graph/op_results.h"
#include "tests/gpu/graph/operator_cases.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/graph/chunk_losses") {
  using namespace es::gpu;
  using es::CpuClass;
  using es::FieldType;
  using es::test::OperatorCase;
  using es::test::StepRig;

  std::int64_t count_of(const Program& program, OpKind kind) {
    return std::ranges::count(program.graph.ops, kind, &Op::kind);
  }

  TEST_CASE("losses in chunks of rows have the bits of whole ones, in steps and in evaluations") {
    const std::uint64_t seed = es::test::seed("chunked losses");
    for (const OperatorCase& c : es::test::chunked_loss_cases()) {
      CAPTURE(c.name);
      const Program chunked = compile(c.graph, 1);
      REQUIRE(count_of(chunked, OpKind::kLinearCrossEntropy) == 1);
      REQUIRE(count_of(chunked, OpKind::kCrossEntropy) == 0);
      REQUIRE(count_of(compile(c.graph), OpKind::kLinearCrossEntropy) == 0);
      for (const CpuClass cpu_class : es::supported_cpu_classes())
        for (const std::uint32_t threads : {1, 3}) {
          CAPTURE(int(cpu_class));
          CAPTURE(threads);
          StepRig whole(compile(c.graph), seed, {.cpu_class = cpu_class});
          StepRig parts(chunked, seed, {.cpu_class = cpu_class, .threads = threads});
          CHECK(parts.step_bits() == whole.step_bits());
          CHECK(parts.evaluation_bits() == whole.evaluation_bits());
          // An evaluation leaves nothing that a step reads.
          CHECK(parts.step_bits() == whole.step_bits());
        }
    }
  }

  // A language model of two layers without attention: 2 x `rows` rows, `classes` classes.
  Graph language_model(std::int64_t rows, std::int64_t classes, bool logits_are_read) {
    constexpr std::int64_t kWidth = 16;
    GraphBuilder b("language", 2,
                   {{{"ids", FieldType::kI32, rows, 1, 1, 0, static_cast<int>(classes) - 1},
                     {"label", FieldType::kI32, rows, 1, 1, 0, static_cast<int>(classes) - 1}}});
    TensorId x = b.embedding("words", b.input("ids"), classes, kWidth, {});
    x = b.gelu("gelu", b.linear("up", x, {.out = kWidth}));
    const TensorId logits = b.linear("head", x, {.out = classes});
    b.cross_entropy("loss", logits, b.input("label"));
    return *b.finish({logits_are_read ? b.relu("result", logits) : logits});
  }

  TEST_CASE("the memory of a step does not grow by logits for each row") {
    constexpr std::int64_t kClasses = 5000;
    const auto step_floats = [&](std::int64_t rows, std::int64_t chunked) {
      Graph graph = language_model(rows, kClasses, false);
      // Without logits that an evaluation writes; those are the subject of the next test.
      graph.outputs = {graph.row_loss};
      const Program program = compile(std::move(graph), chunked);
      const StepRig rig(program, 1, {.cpu_class = es::supported_cpu_classes().back()});
      return rig.executor->plan().arena_floats + rig.executor->workspace_floats();
    };
    const std::int64_t few = step_floats(512, 1), many = step_floats(2048, 1);
    // 3,072 rows more: their tensors of 16 columns, and less than one row of logits in ten.
    CHECK(many - few < 3072 * kClasses / 10);
    CHECK(step_floats(2048, INT64_MAX) - step_floats(512, INT64_MAX) >= 3072 * kClasses);
    CHECK(few < step_floats(512, INT64_MAX));
  }

  TEST_CASE("logits that only an evaluation writes may lie where a step keeps other tensors") {
    Graph graph = language_model(1024, 5000, false);
    const std::int64_t logits = graph.shape(graph.outputs[0]).count();
    const Program chunked = compile(std::move(graph), 1);
    const MemoryPlan plan = plan_memory(chunked);
    CHECK(plan.evaluation.in_arena[chunked.graph.outputs[0]] != TensorPlaces::kOutside);
    CHECK(plan.arena_floats >= logits);
    // The gradient of the weight, which only a step writes, lies in their place, and so do the
    // tensors of the backward pass.
    const std::int64_t weight = 5000 * 16;
    CHECK(plan.live_peak_floats < logits + weight);
    CHECK(plan.arena_floats <= plan.live_peak_floats + plan.live_peak_floats / 20);
  }

  TEST_CASE("logits that only an evaluation writes are no result of a step, nor are their views") {
    for (const OperatorCase& c : es::test::chunked_loss_cases()) {
      const Program program = compile(c.graph, 1);
      const std::vector<bool> evaluated = evaluation_tensors(program.graph);
      for (const TensorId t : program.graph.outputs) CHECK(evaluated[static_cast<std::size_t>(t)]);
      CHECK(std::ranges::count(evaluated, true) >= 1);
      CHECK(std::ranges::count(evaluated, true) <= 3);
      for (const auto& results : op_results(program.graph))
        for (const OpResult& r : results)
          if (r.tensor != kNoTensor) CHECK(!evaluated[static_cast<std::size_t>(r.tensor)]);
    }
  }

  TEST_CASE("logits with another reader, few rows, or few floats are not divided") {
    const auto joined = [](Graph graph, std::int64_t least) {
      return count_of(compile(std::move(graph), least), OpKind::kLinearCrossEntropy);
    };
    CHECK(joined(language_model(300, 40, false), 1) == 1);
    CHECK(joined(language_model(300, 40, true), 1) == 0);
    CHECK(joined(language_model(256, 40, false), 1) == 0);
    CHECK(joined(language_model(300, 40, false), 600 * 40) == 1);
    CHECK(joined(language_model(300, 40, false), 600 * 40 + 1) == 0);
  }
}
