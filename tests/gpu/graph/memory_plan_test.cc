#include "gpu/graph/memory_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "gpu/graph/fuse.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/models/models.h"
#include "tests/gpu/models/samples_by_formula.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/graph/memory_plan") {
  using namespace es::gpu;
  using es::Result;

  std::int64_t round_up(std::int64_t n) {
    return (n + 15) / 16 * 16;
  }

  TEST_CASE("blocks that are live together never overlap, others may") {
    std::mt19937_64 random(es::test::seed("memory_plan"));
    for (int trial = 0; trial < 50; ++trial) {
      std::vector<LiveBlock> blocks(40);
      for (LiveBlock& b : blocks) {
        b.first = static_cast<std::int64_t>(random() % 30);
        b.last = b.first + static_cast<std::int64_t>(random() % 8);
        b.floats = 1 + static_cast<std::int64_t>(random() % 500);
      }
      const std::vector<std::int64_t> offset = place_blocks(blocks);
      std::int64_t end = 0;
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        CHECK(offset[i] % 16 == 0);
        end = std::max(end, offset[i] + round_up(blocks[i].floats));
        for (std::size_t j = 0; j < i; ++j) {
          const bool together =
              blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
          const bool apart = offset[i] + blocks[i].floats <= offset[j] ||
                             offset[j] + blocks[j].floats <= offset[i];
          CHECK((apart || !together));
        }
      }
      CHECK(end >= live_peak(blocks));
      CHECK(end <= 2 * live_peak(blocks));
    }
  }

  TEST_CASE("the peak counts the blocks that are live at one operator") {
    CHECK(live_peak(std::vector<LiveBlock>{{16, 0, 2}, {32, 2, 3}, {64, 3, 4}}) == 96);
    CHECK(live_peak(std::vector<LiveBlock>{{1, 0, 0}, {1, 1, 1}}) == 16);
  }

  // Executes the plan symbolically: for every word of the arena it stores which tensor was written
  // there.
  class PlanCheck {
   public:
    explicit PlanCheck(const Program& program)
        : program_(program),
          graph_(program.graph),
          plan_(plan_memory(program)),
          owner_(static_cast<std::size_t>(plan_.arena_floats), kNoTensor),
          content_(graph_.tensors.size()) {}

    void run() {
      std::iota(content_.begin(), content_.end(), 0);
      for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
        execute(graph_.ops[i]);
        if (i + 1 == program_.first_backward) check_results();
      }
      CHECK(plan_.arena_floats >= plan_.live_peak_floats);
      CHECK(plan_.arena_floats <= plan_.live_peak_floats + plan_.live_peak_floats / 20);
    }

   private:
    std::int64_t words(TensorId t) const {
      const Tensor& tensor = graph_.tensors[t];
      return tensor.type == ElementType::kU8 ? (tensor.shape.count() + 3) / 4
                                             : tensor.shape.count();
    }
    bool intact(TensorId t) const {
      if (plan_.offset[t] == MemoryPlan::kOutside) return true;
      const auto begin = owner_.begin() + plan_.offset[t];
      return std::all_of(begin, begin + words(t), [&](TensorId o) { return o == content_[t]; });
    }
    void execute(const Op& op) {
      for (const TensorId t : op.in) CHECK_MESSAGE(intact(t), op.name << " " << op_name(op.kind));
      for (const TensorId t : op.out) {
        if (op.kind == OpKind::kView) {
          content_[t] = content_[op.in[0]];  // A view has the content of its base.
          CHECK(plan_.offset[t] == plan_.offset[op.in[0]]);
          CHECK(plan_.owner[t] == plan_.owner[op.in[0]]);
          continue;
        }
        REQUIRE(plan_.offset[t] >= 0);
        REQUIRE(plan_.offset[t] + words(t) <= plan_.arena_floats);
        std::fill_n(owner_.begin() + plan_.offset[t], words(t), t);
      }
    }
    // The results of an evaluation exist after the last forward operator.
    void check_results() const {
      for (const TensorId t : graph_.outputs) CHECK(intact(t));
      CHECK(intact(graph_.row_loss));
      CHECK(intact(graph_.mean_loss));
    }

    const Program& program_;
    const Graph& graph_;
    MemoryPlan plan_;
    std::vector<TensorId> owner_;    // By word of the arena.
    std::vector<TensorId> content_;  // By tensor.
  };

  TEST_CASE(
      "in the plan of every model the operators find their inputs, and little memory is wasted") {
    for (const std::string model : {"mlp", "small_cnn", "resnet18", "resnet50", "shufflenetv2",
                                    "vgg19", "swin_t", "yolov3", "neumf", "bert", "electra"})
      for (const std::string size : {"tiny", "published"}) {
        CAPTURE(model);
        CAPTURE(size);
        const es::ModelSpec spec{.name = model, .size = size, .classes = 10};
        es::test::SampleSizes sizes;
        sizes.side = 32;
        const Result<Graph> graph =
            build_model(spec, 2, es::test::sample_layout(task_of(spec), sizes));
        REQUIRE_MESSAGE(graph.ok(), graph.error().message);
        const Program program = compile(*graph);
        PlanCheck(program).run();
      }
  }

  TEST_CASE("an input and its views stay outside the arena, and nothing is written to them") {
    const es::ModelSpec spec{.name = "mlp", .size = "tiny", .classes = 10};
    const es::SampleLayout layout = es::test::sample_layout(es::Task::kClassification);
    const Program program = compile(*build_model(spec, 2, layout));
    const MemoryPlan plan = plan_memory(program);
    for (const TensorId input : program.graph.inputs) {
      CHECK(plan.offset[input] == MemoryPlan::kOutside);
      CHECK(plan.owner[input] == input);
    }
    for (const Op& op : program.graph.ops)
      if (op.kind != OpKind::kView)
        for (const TensorId t : op.out) CHECK(plan.offset[t] != MemoryPlan::kOutside);
  }
}
