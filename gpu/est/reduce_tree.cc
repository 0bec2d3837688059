#include "gpu/est/reduce_tree.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

// 16 KiB for each operand: a whole path of the tree stays in the second-level cache.
constexpr std::int64_t kReduceFloats = 4096;

// Sums one block of the arrays.
class BlockSum {
 public:
  BlockSum(std::uint32_t max_p, std::span<const GradientPart> parts, float* workspace, Adder& adder)
      : max_p_(max_p), parts_(parts), workspace_(workspace), adder_(adder) {}

  void set_block(std::int64_t begin, std::int64_t floats) {
    begin_ = begin;
    floats_ = floats;
  }

  // Returns the address of the node's sum: `scratch`, or the place where a part already has it.
  // Each recursion into a right child uses the workspace block of its own level, so no sum that is
  // still needed is overwritten.
  const float* sum(TreeNode node, float* scratch) {
    // The search descends from the root and stops at a node that a part covers. So it makes exactly
    // the additions above the parts, which no worker has made.
    if (const float* part = find(node); part != nullptr)
      return adder_.read(part, begin_, floats_, scratch);
    ES_CHECK(node.level > 0);
    const TreeNode left{node.level - 1, 2 * node.index};
    const TreeNode right{node.level - 1, 2 * node.index + 1};
    // The left sum may use the caller's block, because the addition below writes its result to the
    // same place and allows that.
    const float* left_sum = sum(left, scratch);
    if (covered_ranks(right, max_p_).empty()) return left_sum;
    const float* right_sum = sum(right, workspace_ + left.level * adder_.block_floats());
    adder_.add(floats_, left_sum, right_sum, scratch);
    return scratch;
  }

 private:
  // A part is named by its ranks and not by its node, because a node with a missing right child has
  // the same sum as its left child and so has several names.
  const float* find(TreeNode node) const {
    const RankRange ranks = covered_ranks(node, max_p_);
    for (const GradientPart& p : parts_)
      if (p.ranks == ranks) return p.data;
    return nullptr;
  }

  std::uint32_t max_p_;
  std::span<const GradientPart> parts_;
  float* workspace_;
  Adder& adder_;
  std::int64_t begin_ = 0;
  std::int64_t floats_ = 0;
};

// The lowest node with exactly these ranks. REQUIRES: there is one.
TreeNode node_of(RankRange ranks, std::uint32_t max_p) {
  ES_CHECK(!ranks.empty());
  const auto level = static_cast<std::uint32_t>(std::bit_width(ranks.size() - 1));
  const TreeNode node{level, ranks.begin >> level};
  ES_CHECK(covered_ranks(node, max_p) == ranks);
  return node;
}

void reduce_tree(std::uint32_t max_p, RankRange ranks, std::span<const GradientPart> parts,
                 std::int64_t n, float* out, float* workspace, Adder& adder) {
  const TreeNode top = node_of(ranks, max_p);
  BlockSum block(max_p, parts, workspace, adder);
  for (std::int64_t begin = 0; begin < n; begin += adder.block_floats()) {
    const std::int64_t floats = std::min(adder.block_floats(), n - begin);
    block.set_block(begin, floats);
    // The sum is not computed directly in `out`, because `out` may be a part that is still to be
    // read.
    const float* sum = block.sum(top, workspace + top.level * adder.block_floats());
    if (sum != out + begin) adder.copy(floats, sum, out + begin);
  }
}

void reduce_chain(std::span<GradientPart> parts, std::int64_t n, float* out, float* workspace,
                  Adder& adder) {
  std::sort(parts.begin(), parts.end(),
            [](const GradientPart& a, const GradientPart& b) { return a.ranks < b.ranks; });
  // Within a block every part is read before or when it is added, and `out` may only be the first
  // part. So writing the running sum to `out` destroys nothing that is still needed.
  for (std::int64_t begin = 0; begin < n; begin += adder.block_floats()) {
    const std::int64_t floats = std::min(adder.block_floats(), n - begin);
    // The first part is read into `out` if it has to be copied, and then a worker alone needs no
    // addition and no workspace.
    const float* sum = adder.read(parts[0].data, begin, floats, out + begin);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      adder.add(floats, sum, adder.read(parts[i].data, begin, floats, workspace), out + begin);
      sum = out + begin;
    }
    if (sum != out + begin) adder.copy(floats, sum, out + begin);
  }
}

}  // namespace

std::int64_t HostAdder::block_floats() const {
  return kReduceFloats;
}

const float* HostAdder::read(const float* part, std::int64_t begin, std::int64_t, float*) {
  return part + begin;
}

void HostAdder::add(std::int64_t n, const float* a, const float* b, float* y) {
  kernels_.add(n, a, b, y);
}

void HostAdder::copy(std::int64_t n, const float* from, float* to) {
  std::memcpy(to, from, sizeof(float) * static_cast<std::size_t>(n));
}

std::int64_t reduce_blocks(std::uint32_t max_p) {
  // One block for each level below the root, and one for the root.
  return std::int64_t{tree_levels(max_p)} + 1;
}

std::int64_t reduce_workspace_floats(std::uint32_t max_p) {
  return reduce_blocks(max_p) * kReduceFloats;
}

bool cover(RankRange range, std::span<const GradientPart> parts) {
  // Parts that do not overlap and whose sizes add up to that of the range cover every rank. The sum
  // has 64 bits, so that sizes from a message cannot wrap to it.
  std::uint64_t ranks = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const RankRange a = parts[i].ranks;
    if (a.begin >= a.end || a.begin < range.begin || a.end > range.end) return false;
    ranks += a.size();
    for (std::size_t j = 0; j < i; ++j)
      if (a.begin < parts[j].ranks.end && parts[j].ranks.begin < a.end) return false;
  }
  return ranks == range.size();
}

void reduce_parts(GradientOrder order, std::uint32_t max_p, RankRange ranks,
                  std::span<GradientPart> parts, std::int64_t n, float* out, float* workspace,
                  Adder& adder) {
  ES_CHECK(cover(ranks, parts));
  if (order == GradientOrder::kPerWorker) return reduce_chain(parts, n, out, workspace, adder);
  reduce_tree(max_p, ranks, parts, n, out, workspace, adder);
}

}  // namespace es::gpu
