#include "actors/worker/state/reduce_parts.h"

#include <bit>
#include <vector>

namespace es::actors::worker {
namespace {

// Returns the node of the canonical tree that covers these ranks. REQUIRES:
// protocol::is_tree_range.
gpu::TreeNode node_of(RankRange ranks) {
  // The level is rounded up, because a node that max_p cuts off has fewer ranks than others of its
  // level.
  const auto level = static_cast<std::uint32_t>(std::bit_width(ranks.size() - 1));
  return {level, ranks.begin >> level};
}

}  // namespace

void reduce_parts(gpu::GradientOrder order, std::uint32_t max_p, std::span<gpu::WorkerPart> parts,
                  std::int64_t floats, float* workspace, float* out, gpu::Adder& adder) {
  if (order == gpu::GradientOrder::kPerWorker)
    return gpu::reduce_workers(max_p, parts, floats, out, workspace, adder);
  std::vector<gpu::TreePart> nodes;
  for (const gpu::WorkerPart& part : parts) nodes.push_back({node_of(part.ranks), part.data});
  gpu::reduce_tree(max_p, nodes, floats, out, workspace, adder);
}

}  // namespace es::actors::worker
