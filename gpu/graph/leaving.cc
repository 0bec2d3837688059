#include "gpu/graph/leaving.h"

#include <algorithm>
#include <vector>

#include "gpu/graph/ops/operator.h"
#include "gpu/graph/step_runner.h"

namespace es::gpu {
namespace {

// The floats [begin, end) are first written by operator `first`.
struct FirstWrite {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t first = 0;
};

// Everything that a local step writes into the gradient array, ascending by its beginning.
std::vector<FirstWrite> first_writes(const Program& program, const MemoryPlan& plan) {
  const Graph& graph = program.graph;
  std::vector<FirstWrite> all;
  const auto add_param = [&](ParamId id, std::int64_t op) {
    if (id == kNoParam || graph.table[id].offset >= graph.table.trained_floats()) return;
    all.push_back({graph.table[id].offset, graph.table.padded_end(id), op});
  };
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const auto now = static_cast<std::int64_t>(i);
    if (op_def(op.kind).writes_weight_grad) add_param(op.weight, now);
    if (op_def(op.kind).writes_bias_grad) add_param(op.bias, now);
    for (const TensorId t : op.out) {
      add_param(plan.gradient_of[plan.owner[t]], now);
      const std::int64_t at = plan.step.in_gradients[t];
      if (at == TensorPlaces::kOutside) continue;
      all.push_back({at, at + tensor_floats(graph.tensors[t]), now});
    }
  }
  std::ranges::sort(all, {}, &FirstWrite::begin);
  return all;
}

// The floats below `end` that were written up to this operator.
std::int64_t written_below(std::span<const FirstWrite> all, std::int64_t end, std::int64_t op) {
  std::int64_t floats = 0, counted_to = 0;
  for (const FirstWrite& one : all) {
    if (one.first > op) continue;
    const std::int64_t begin = std::max(one.begin, counted_to), last = std::min(one.end, end);
    floats += std::max<std::int64_t>(0, last - begin);
    counted_to = std::max(counted_to, last);
  }
  return floats;
}

}  // namespace

std::int64_t leaving_floats(const Program& program, const MemoryPlan& plan,
                            std::span<const Bucket> buckets, std::int64_t waiting_floats) {
  const std::vector<FirstWrite> all = first_writes(program, plan);
  const std::vector<std::size_t> ready =
      bucket_ready_ops(program, {buckets.begin(), buckets.end()});
  std::int64_t most = 0;
  // At the operator that finishes bucket b, what lies above it is bucket 0 and what waits.
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const std::int64_t above = buckets.front().end - buckets[b].end;
    const std::int64_t kept =
        b == 0 ? 0 : buckets[0].floats() + std::min(waiting_floats, above - buckets[0].floats());
    const auto op = static_cast<std::int64_t>(ready[b]);
    most = std::max(most, kept + written_below(all, buckets[b].end, op));
  }
  return most;
}

}  // namespace es::gpu
