#include "gpu/graph/memory_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "gpu/models/models.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/graph/memory_plan") {
  using namespace es::gpu;

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

  TEST_CASE("the peak counts what is live at one operator") {
    CHECK(live_peak(std::vector<LiveBlock>{{16, 0, 2}, {32, 2, 3}, {64, 3, 4}}) == 96);
    CHECK(live_peak(std::vector<LiveBlock>{{1, 0, 0}, {1, 1, 1}}) == 16);
  }

  // Executes the plan symbolically: every word of the arena remembers which tensor was written to
  // it.
  void check_plan(const Program& program) {
    const Graph& graph = program.graph;
    const MemoryPlan plan = plan_memory(program);
    std::vector<TensorId> owner(static_cast<std::size_t>(plan.arena_floats), kNoTensor);
    std::vector<TensorId> content(graph.tensors.size());  // views hold what they are a view of
    const auto words = [&](TensorId t) {
      const Tensor& tensor = graph.tensors[t];
      return tensor.type == ElementType::kF32 ? tensor.shape.count()
                                              : (tensor.shape.count() + 3) / 4;
    };
    const auto intact = [&](TensorId t) {
      if (plan.offset[t] == MemoryPlan::kInput) return true;
      const auto begin = owner.begin() + plan.offset[t];
      return std::all_of(begin, begin + words(t), [&](TensorId o) { return o == content[t]; });
    };
    for (const Op& op : graph.ops) {
      for (const TensorId t : op.in) CHECK_MESSAGE(intact(t), op.name << " " << op_name(op.kind));
      for (const TensorId t : op.out) {
        content[t] = op.kind == OpKind::kView ? content[op.in[0]] : t;
        if (op.kind == OpKind::kView) {
          CHECK(plan.offset[t] == plan.offset[op.in[0]]);
          continue;
        }
        REQUIRE(plan.offset[t] >= 0);
        REQUIRE(plan.offset[t] + words(t) <= plan.arena_floats);
        std::fill_n(owner.begin() + plan.offset[t], words(t), t);
      }
    }
    for (const TensorId t : {graph.logits, graph.row_loss, graph.mean_loss}) CHECK(intact(t));
    CHECK(plan.arena_floats >= plan.live_peak_floats);
    CHECK(plan.arena_floats <= plan.live_peak_floats + plan.live_peak_floats / 10);
  }

  TEST_CASE("in the models' plans every operator still finds its inputs") {
    check_plan(differentiate(*build_mlp({4, 8, 8, 1}, 32, 10)));
    check_plan(differentiate(*build_small_cnn({4, 28, 28, 1}, 16, 10)));
    check_plan(differentiate(*build_resnet18({2, 28, 28, 1}, 16, 10)));
  }
}
