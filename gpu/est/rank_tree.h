#pragma once
// The canonical tree over virtual ranks: pure arithmetic on its nodes.
//
// node(level, index) covers the ranks [index << level, min((index + 1) << level, max_p)). Its sum
// is node(level - 1, 2 * index) + node(level - 1, 2 * index + 1). If the right child covers no
// rank, the sum is that of the left child, unchanged. The root is the lowest node with index 0 that
// covers all ranks.
#include <compare>
#include <cstdint>
#include <vector>

#include "proto/base/ids.h"

namespace es::gpu {

// The order in which the gradients of ESTs are summed.
//   kTree       in the canonical tree over virtual ranks: the bits do not depend on the placement
//   kPerWorker  a worker chains its ESTs in rank order, ((g0 + g1) + g2) ..., and the parts of the
//               workers are chained in rank order. This needs the least memory, but the bits depend
//               on the placement. Only level D0 uses it, which promises nothing more.
enum class GradientOrder { kTree, kPerWorker };

struct TreeNode {
  std::uint32_t level = 0;
  std::uint32_t index = 0;
  auto operator<=>(const TreeNode&) const = default;
};

// The highest level of a node. Nodes of higher levels cover no rank, so a node that was read from a
// message cannot overflow the arithmetic.
constexpr std::uint32_t kTreeLevelMax = 31;

// Returns the number of levels above the leaves: ceil(log2(max_p)). REQUIRES: max_p > 0.
std::uint32_t tree_levels(std::uint32_t max_p);

// Returns the ranks under the node; empty if the node lies beyond max_p.
RankRange covered_ranks(TreeNode node, std::uint32_t max_p);

// Returns the nodes that a worker with this range contributes: the highest nodes whose ranks all
// lie inside the range, in rank order. They cover every rank of the range exactly once. There are
// at most 2 * ceil(log2(max_p)) of them, and one if the range contains all ranks. REQUIRES: `range`
// is within [0, max_p).
std::vector<TreeNode> maximal_nodes(RankRange range, std::uint32_t max_p);

// Returns the largest number of gradient buffers that are in use at one time while the ESTs of the
// range run in rank order and the buffers of contributed nodes are held until the commit
// (GradientTree). It is log2(n) + 1 for an aligned range of n = 2^k ranks. With the order
// kPerWorker the sum and the gradient of the current rank need at most 2.
std::uint32_t max_live_buffers(RankRange range, std::uint32_t max_p,
                               GradientOrder order = GradientOrder::kTree);

}  // namespace es::gpu
