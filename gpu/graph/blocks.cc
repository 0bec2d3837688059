#include "gpu/graph/blocks.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "gpu/graph/fuse.h"
#include "gpu/graph/memory_plan.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/graph/uses.h"

namespace es::gpu {
namespace {

// Each count costs a whole compilation, so only some are tried. More blocks shorten the recomputed
// part that is live at one time, but more results at the cuts stay live until the backward pass.
constexpr int kBlockCounts[] = {2, 3, 4, 6, 8, 12, 16, 24, 32};

// What the cuts depend on, for each operator of a model.
struct Loads {
  std::vector<double> written;      // floats that it and all operators before it write
  std::vector<double> live_behind;  // (uses.h)
};

Loads loads_of(const Graph& graph) {
  Loads loads{{}, live_behind(graph)};
  double written = 0.0;
  for (const Op& op : graph.ops) {
    // A view writes nothing.
    if (!op_def(op.kind).is_view)
      for (const TensorId t : op.out) written += static_cast<double>(graph.shape(t).count());
    loads.written.push_back(written);
  }
  return loads;
}

// Gives the operators the numbers of their blocks, which write about equally many floats. Within a
// quarter of a block around the even cut, it cuts where the fewest floats are live.
Graph with_blocks(Graph graph, const Loads& loads, int blocks) {
  const double total = loads.written.back();
  std::size_t begin = 0;
  for (int block = 1; block <= blocks; ++block) {
    const auto at = [&](double share) {
      const auto found =
          std::lower_bound(loads.written.begin(), loads.written.end(), share * total / blocks);
      return static_cast<std::size_t>(found - loads.written.begin());
    };
    const std::size_t low = std::max(begin, at(block - 0.25));
    // `high` is the end of a half-open range, which the 1 makes non-empty even if one operator
    // writes more than half a block.
    const std::size_t high = std::min(graph.ops.size(), at(block + 0.25) + 1);
    std::size_t end = graph.ops.size();
    if (block < blocks && low < high)
      end =
          1 + static_cast<std::size_t>(
                  std::min_element(loads.live_behind.begin() + static_cast<std::ptrdiff_t>(low),
                                   loads.live_behind.begin() + static_cast<std::ptrdiff_t>(high)) -
                  loads.live_behind.begin());
    // The gradients of the last block run first, when all its results are still in memory.
    // Computing them again would save nothing.
    const auto region = static_cast<std::uint32_t>(block < blocks ? block : 0);
    for (; begin < end; ++begin) graph.ops[begin].region = region;
  }
  return graph;
}

}  // namespace

Graph cut_into_blocks(const Graph& graph) {
  const auto arena = [](const Graph& g) { return plan_memory(compile(g)).arena_floats; };
  Graph best = graph;
  // The model without regions is the candidate that the others must beat, so a cut that saves
  // nothing is not taken.
  for (Op& op : best.ops) op.region = 0;
  if (graph.ops.empty()) return best;
  const Loads loads = loads_of(graph);
  std::int64_t shortest = arena(best);
  for (const int blocks : kBlockCounts) {
    Graph candidate = with_blocks(graph, loads, blocks);
    const std::int64_t floats = arena(candidate);
    if (floats >= shortest) continue;
    shortest = floats;
    best = std::move(candidate);
  }
  return best;
}

}  // namespace es::gpu
