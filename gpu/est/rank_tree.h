#pragma once
// The canonical tree over virtual ranks: pure arithmetic of its nodes.
//
// node(level, index) covers ranks [index << level, min((index + 1) << level, max_p)). Its sum is
// node(level-1, 2*index) + node(level-1, 2*index+1); a missing right child passes the left through.
// The root is the lowest node with index 0 that covers all ranks.
#include <compare>
#include <cstdint>
#include <vector>

#include "proto/base/ids.h"

namespace es::gpu {

// How the gradients of ESTs are added up.
//   kTree       in the canonical tree over virtual ranks: the bits do not depend on the placement
//   kPerWorker  a worker chains its ESTs in rank order, ((g0 + g1) + g2) ..., and the workers'
//               parts are chained in rank order: the least memory, but the bits depend on the
//               placement. Only level D0, which promises no more.
enum class GradientOrder { kTree, kPerWorker };

struct TreeNode {
  std::uint32_t level = 0;
  std::uint32_t index = 0;
  auto operator<=>(const TreeNode&) const = default;
};

// Higher levels name no node: a node read from a message cannot overflow the arithmetic.
constexpr std::uint32_t kTreeLevelMax = 31;

// Levels above the leaves: ceil(log2(max_p)). REQUIRES: max_p > 0.
std::uint32_t tree_levels(std::uint32_t max_p);

// Ranks under the node; empty when the node lies beyond max_p.
RankRange covered_ranks(TreeNode node, std::uint32_t max_p);

// The nodes that a worker with this range contributes: the highest nodes whose ranks lie inside
// the range, in rank order. They cover every rank of the range once; there are at most
// 2*ceil(log2(max_p)) (one when the range is everything). REQUIRES: range within [0, max_p).
std::vector<TreeNode> maximal_nodes(RankRange range, std::uint32_t max_p);

// Gradient buffers that are in use at most while the ESTs of the range run in rank order, when the
// buffers of contributed nodes are held until the commit (GradientTree). log2(n) + 1 for an aligned
// range of n = 2^k ranks. In order kPerWorker: the sum and the present rank's, so at most 2.
std::uint32_t max_live_buffers(RankRange range, std::uint32_t max_p,
                               GradientOrder order = GradientOrder::kTree);

}  // namespace es::gpu
