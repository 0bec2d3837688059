// The model file of every built-in model has the bits of the built-in one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "gpu/graph/fuse.h"
#include "gpu/graph/memory_plan.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/import/check.h"
#include "gpu/import/import.h"
#include "gpu/import/state_names.h"
#include "gpu/models/models.h"
#include "gpu/params/pytorch_layout.h"
#include "proto/base/job_fields.h"
#include "tests/gpu/models/samples_by_formula.h"
#include "tests/gpu/support/step_rig.h"

TEST_SUITE("gpu/models/written") {
  using namespace es;
  using namespace es::gpu;
  using test::StepRig;

  constexpr std::int64_t kBatch = 3;

  constexpr test::SampleSizes kSizes{.side = 64, .tokens = 16};

  SampleLayout layout_of_task(const std::string& model) {
    return test::sample_layout(task_of({.name = model}), kSizes);
  }

  ModelSpec tiny(const std::string& model) {
    return {.name = model, .size = "tiny"};
  }

  Graph built_in(const std::string& model, std::int64_t batch = kBatch) {
    const Result<Graph> graph = build_model(tiny(model), batch, layout_of_task(model));
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    return *graph;
  }

  ModelProgram written(const std::string& model) {
    const Result<ModelProgram> program = write_model(tiny(model), 2, layout_of_task(model));
    REQUIRE_MESSAGE(program.ok(), program.error().message);
    const Status checked = check_program(*program);
    REQUIRE_MESSAGE(checked.ok(), (checked.ok() ? "" : checked.error().message));
    return *program;
  }

  Graph imported(const ModelProgram& program, std::int64_t batch = kBatch) {
    Result<Graph> graph = import_model(program, batch);
    REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
    add_state_names(program, graph->table);
    return *std::move(graph);
  }

  // The bits of all tensors by name, in PyTorch's order of elements.
  using State = std::map<std::string, std::vector<std::uint32_t>>;
  State state_of(const StepRig& rig, const float* flat, const std::vector<float>& stats) {
    State state;
    for (const NamedTensor& tensor : export_state(rig.graph().table, flat, stats.data())) {
      std::vector<std::uint32_t>& bits = state[tensor.name];
      bits.resize(tensor.values.size());
      std::memcpy(bits.data(), tensor.values.data(), 4 * bits.size());
    }
    return state;
  }

  // Compares the names one by one, so that a failure names the first that differs.
  void check_equal(const State& a, const State& b) {
    CHECK(a.size() == b.size());
    for (const auto& [name, bits] : a) {
      CAPTURE(name);
      REQUIRE(b.contains(name));
      REQUIRE(bits == b.at(name));
    }
  }

  // What a plain gradient descent makes of the parameters and statistics.
  void descend(StepRig & rig) {
    for (std::int64_t i = 0; i < rig.graph().table.trained_floats(); ++i)
      rig.params.data()[i] -= 0.125F * rig.grads.data()[i];
    rig.stats = rig.next_stats;
  }

  void check_same_steps(StepRig & a, StepRig & b) {
    for (int step = 0; step < 2; ++step) {
      CAPTURE(step);
      const float losses[] = {a.run(), b.run()};
      CHECK(std::isfinite(losses[0]));
      CHECK(std::memcmp(&losses[0], &losses[1], sizeof(float)) == 0);
      check_equal(state_of(a, a.grads.data(), a.next_stats),
                  state_of(b, b.grads.data(), b.next_stats));
      descend(a);
      descend(b);
    }
    check_equal(state_of(a, a.params.data(), a.stats), state_of(b, b.params.data(), b.stats));
  }

  // The heads of a detector are images [n,c,h,w] in a program and [n,h,w,c] in a graph.
  void check_same_evaluations(StepRig & a, StepRig & b) {
    std::vector<std::uint32_t> x = a.evaluation_bits(), y = b.evaluation_bits();
    REQUIRE(x.size() == y.size());
    if (a.graph().outputs.size() > 1) {
      std::ranges::sort(x);
      std::ranges::sort(y);
    }
    CHECK(x == y);
  }

  std::vector<std::string> all_models() {
    std::vector<std::string> all;
    for (const TaskNames& task : task_names())
      all.insert(all.end(), task.models.begin(), task.models.end());
    return all;
  }

  // Words that the moves of a step write.
  std::int64_t moved_words(const Program& program) {
    std::int64_t words = 0;
    for (const Op& op : program.graph.ops)
      for (const TensorId t : op.out)
        if (op.kind == OpKind::kMove) words += program.graph.shape(t).count();
    return words;
  }

  // How many operators of each sort a step executes.
  std::map<std::string, int> operators(const Program& program) {
    std::map<std::string, int> found;
    for (const Op& op : program.graph.ops)
      if (!op_def(op.kind).is_view) ++found[op_name(op.kind) + (" " + op_detail(op))];
    return found;
  }

  TEST_CASE("a step with one image executes the operators of a step with several") {
    for (const std::string model : {"shufflenetv2", "swin_t", "yolov3"}) {
      CAPTURE(model);
      CHECK(operators(compile(built_in(model, 1))) == operators(compile(built_in(model))));
    }
  }

  // The bias of an attention is turned before the queries are computed, which are larger.
  TEST_CASE("an evaluation of Swin holds no more than a bias, its image and the queries") {
    const SampleLayout small = test::sample_layout(Task::kClassification, {.side = 32});
    const Program program = compile_forward(*build_model(tiny("swin_t"), 1, small));
    CHECK(plan_memory(program).arena_floats == 20'256);
  }

  // Several nodes of a program shuffle channels, or cut an image into windows. The engine joins
  // them to one pass over the words that move.
  TEST_CASE("models move no more words than in one pass for each shuffle and each window") {
    CHECK(moved_words(compile(built_in("shufflenetv2"))) == 18'432);
    CHECK(moved_words(compile(built_in("swin_t"))) == 315'864);
  }

  TEST_CASE("a written model has the losses, gradients and parameters of the built-in one") {
    for (const std::string& model : all_models()) {
      CAPTURE(model);
      StepRig a(compile(built_in(model)), 7), b(compile(imported(written(model))), 7);
      a.words = b.words = test::reference_batch(task_of({.name = model}), kSizes, kBatch);
      check_equal(state_of(a, a.params.data(), a.stats), state_of(b, b.params.data(), b.stats));
      check_same_steps(a, b);
      check_same_evaluations(a, b);
    }
  }
}
