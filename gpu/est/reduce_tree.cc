#include "gpu/est/reduce_tree.h"

#include <algorithm>
#include <cstring>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

// 16 KiB per operand: a whole path of the tree stays in the second-level cache.
constexpr std::int64_t kBlockFloats = 4096;

// Sums one block of the arrays.
class BlockSum {
 public:
  BlockSum(std::uint32_t max_p, std::span<const TreePart> parts, float* workspace,
           const KernelTable& kernels)
      : max_p_(max_p), parts_(parts), workspace_(workspace), kernels_(kernels) {}

  void set_block(std::int64_t begin, std::int64_t floats) {
    begin_ = begin;
    floats_ = floats;
  }

  // The node's sum: in `scratch`, or where a part already has it.
  const float* sum(TreeNode node, float* scratch) {
    if (const float* part = find(node); part != nullptr) return part + begin_;
    ES_CHECK(node.level > 0);
    const TreeNode left{node.level - 1, 2 * node.index};
    const TreeNode right{node.level - 1, 2 * node.index + 1};
    const float* left_sum = sum(left, scratch);
    if (covered_ranks(right, max_p_).empty()) return left_sum;
    const float* right_sum = sum(right, workspace_ + left.level * kBlockFloats);
    kernels_.add(floats_, left_sum, right_sum, scratch);
    return scratch;
  }

 private:
  // Nodes are compared by the ranks that they cover: above a missing sibling one sum has several
  // names.
  const float* find(TreeNode node) const {
    const RankRange ranks = covered_ranks(node, max_p_);
    for (const TreePart& p : parts_)
      if (covered_ranks(p.node, max_p_) == ranks) return p.data;
    return nullptr;
  }

  std::uint32_t max_p_;
  std::span<const TreePart> parts_;
  float* workspace_;
  const KernelTable& kernels_;
  std::int64_t begin_ = 0;
  std::int64_t floats_ = 0;
};

}  // namespace

std::int64_t reduce_tree_workspace_floats(std::uint32_t max_p) {
  // One block per level below the root, and one for the root.
  return (std::int64_t{tree_levels(max_p)} + 1) * kBlockFloats;
}

bool covers_all_ranks(std::uint32_t max_p, std::span<const TreePart> parts) {
  std::uint64_t ranks = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const RankRange a = covered_ranks(parts[i].node, max_p);
    if (a.empty()) return false;
    ranks += a.size();
    for (std::size_t j = 0; j < i; ++j) {
      const RankRange b = covered_ranks(parts[j].node, max_p);
      if (a.begin < b.end && b.begin < a.end) return false;
    }
  }
  return ranks == max_p;
}

void reduce_tree(std::uint32_t max_p, std::span<const TreePart> parts, std::int64_t n, float* out,
                 float* workspace, const KernelTable& kernels) {
  ES_CHECK(covers_all_ranks(max_p, parts));
  const std::uint32_t levels = tree_levels(max_p);
  BlockSum block(max_p, parts, workspace, kernels);
  for (std::int64_t begin = 0; begin < n; begin += kBlockFloats) {
    const std::int64_t floats = std::min(kBlockFloats, n - begin);
    block.set_block(begin, floats);
    // Not straight into `out`: that may be a part which is still to be read.
    const float* root = block.sum({levels, 0}, workspace + levels * kBlockFloats);
    if (root != out + begin) std::memcpy(out + begin, root, sizeof(float) * floats);
  }
}

bool covers_all_ranks(std::uint32_t max_p, std::span<const WorkerPart> parts) {
  std::uint64_t ranks = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const RankRange a = parts[i].ranks;
    if (a.begin >= a.end || a.end > max_p) return false;
    ranks += a.size();
    for (std::size_t j = 0; j < i; ++j)
      if (a.begin < parts[j].ranks.end && parts[j].ranks.begin < a.end) return false;
  }
  return ranks == max_p;
}

void reduce_workers(std::uint32_t max_p, std::span<WorkerPart> parts, std::int64_t n, float* out,
                    const KernelTable& kernels) {
  ES_CHECK(covers_all_ranks(max_p, parts));
  std::sort(parts.begin(), parts.end(),
            [](const WorkerPart& a, const WorkerPart& b) { return a.ranks < b.ranks; });
  for (std::int64_t begin = 0; begin < n; begin += kBlockFloats) {
    const std::int64_t floats = std::min(kBlockFloats, n - begin);
    const float* sum = parts[0].data + begin;
    for (std::size_t i = 1; i < parts.size(); ++i) {
      kernels.add(floats, sum, parts[i].data + begin, out + begin);
      sum = out + begin;
    }
    if (sum != out + begin) std::memcpy(out + begin, sum, sizeof(float) * floats);
  }
}

}  // namespace es::gpu
