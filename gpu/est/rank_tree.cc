#include "gpu/est/rank_tree.h"

#include <algorithm>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

bool inside(RankRange inner, RankRange outer) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

void collect_maximal(TreeNode node, RankRange range, std::uint32_t max_p,
                     std::vector<TreeNode>& out) {
  const RankRange covered = covered_ranks(node, max_p);
  const bool disjoint = covered.end <= range.begin || range.end <= covered.begin;
  if (covered.empty() || disjoint) return;
  // A leaf covers one rank, which is inside the range or outside of it. So the recursion below
  // never reaches a node of level 0, and `node.level - 1` cannot wrap.
  if (inside(covered, range)) {
    out.push_back(node);
    return;
  }
  collect_maximal({node.level - 1, 2 * node.index}, range, max_p, out);
  collect_maximal({node.level - 1, 2 * node.index + 1}, range, max_p, out);
}

}  // namespace

std::uint32_t tree_levels(std::uint32_t max_p) {
  ES_CHECK(max_p > 0);
  std::uint32_t levels = 0;
  // The shift uses 64 bits, so it cannot overflow for any 32-bit max_p.
  while ((std::uint64_t{1} << levels) < max_p) ++levels;
  return levels;
}

RankRange covered_ranks(TreeNode node, std::uint32_t max_p) {
  if (node.level > kTreeLevelMax) return {max_p, max_p};
  // 64 bits, because the last node of a level may end beyond the largest rank. So may a node of a
  // message, which can have any index.
  const std::uint64_t begin = std::uint64_t{node.index} << node.level;
  const std::uint64_t end = (std::uint64_t{node.index} + 1) << node.level;
  return {static_cast<VirtualRank>(std::min<std::uint64_t>(begin, max_p)),
          static_cast<VirtualRank>(std::min<std::uint64_t>(end, max_p))};
}

std::vector<TreeNode> maximal_nodes(RankRange range, std::uint32_t max_p) {
  ES_CHECK(range.begin <= range.end && range.end <= max_p);
  std::vector<TreeNode> nodes;
  if (!range.empty()) collect_maximal({tree_levels(max_p), 0}, range, max_p, nodes);
  return nodes;
}

std::uint32_t max_live_buffers(RankRange range, std::uint32_t max_p, GradientOrder order) {
  if (order == GradientOrder::kPerWorker) return std::min(range.size(), 2U);
  // Each maximal node keeps one buffer from the start of its first rank on. Inside a maximal node,
  // while rank r runs, r itself needs a buffer, and so does every finished left sibling on the path
  // from the node down to r. These siblings correspond to the one bits of r below the node's level.
  std::uint32_t held = 0;
  std::uint32_t peak = 0;
  for (const TreeNode node : maximal_nodes(range, max_p)) {
    const RankRange covered = covered_ranks(node, max_p);
    for (VirtualRank r = covered.begin; r < covered.end; ++r) {
      std::uint32_t finished_lefts = 0;
      for (std::uint32_t level = 0; level < node.level; ++level)
        finished_lefts += (r >> level) & 1U;
      peak = std::max(peak, held + finished_lefts + 1);
    }
    // The sum of a maximal node stays in its buffer until the commit, because the other workers
    // read it from there.
    ++held;
  }
  return peak;
}

}  // namespace es::gpu
