#include "gpu/est/gradient_tree.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

// 16 KiB per operand: what one merge writes is in the cache when the next one reads it.
constexpr std::int64_t kBlockFloats = 4096;

}  // namespace

GradientTree::GradientTree(RankRange range, std::uint32_t max_p, std::vector<Bucket> buckets,
                           const KernelTable& kernels, SlotAddress slots, OnNodeReady on_node_ready,
                           GradientOrder order)
    : range_(range),
      max_p_(max_p),
      maximal_(maximal_nodes(range, max_p)),
      buckets_(std::move(buckets)),
      kernels_(kernels),
      slot_address_(std::move(slots)),
      on_node_ready_(std::move(on_node_ready)),
      order_(order),
      next_rank_(range.begin),
      slot_used_(max_live_buffers(range, max_p, order), false) {
  ES_CHECK(!range.empty() && !buckets_.empty());
  pending_.reserve(slot_used_.size());
  path_.reserve(slot_used_.size());
}

float* GradientTree::begin_rank(VirtualRank rank) {
  ES_CHECK(!in_rank_ && rank == next_rank_ && range_.contains(rank));
  in_rank_ = true;
  path_.push_back({{0, rank}, acquire_slot()});
  if (order_ == GradientOrder::kTree) {
    plan_merges();
  } else {
    plan_chain();
  }
  return slot_address_(path_.front().slot);
}

// Fixes, for the rank that begins, the chain of merges that its leaf completes. `path_` becomes the
// leaf, then the left partial sums that take it over one after the other; the last is what remains.
void GradientTree::plan_merges() {
  TreeNode node = path_.front().node;
  while (std::find(maximal_.begin(), maximal_.end(), node) == maximal_.end()) {
    const TreeNode parent{node.level + 1, node.index / 2};
    const bool is_left = node.index % 2 == 0;
    const bool has_sibling = !covered_ranks({node.level, node.index + 1}, max_p_).empty();
    if (is_left && has_sibling) break;  // waits for its right sibling
    if (!is_left) {
      ES_CHECK(!pending_.empty() && pending_.back().node == TreeNode({node.level, node.index - 1}));
      path_.push_back(pending_.back());
      pending_.pop_back();
    }
    node = parent;
  }
  finished_ = node;
}

// The sum of the ranks before takes the rank over.
void GradientTree::plan_chain() {
  finished_ = path_.front().node;
  if (pending_.empty()) return;
  path_.push_back(pending_.back());
  pending_.pop_back();
}

void GradientTree::bucket_ready(std::uint32_t bucket) {
  ES_CHECK(in_rank_ && bucket == current_bucket_ && bucket < buckets_.size());
  const Bucket& b = buckets_[bucket];
  for (std::int64_t at = b.begin; at < b.end; at += kBlockFloats)
    merge(at, std::min(kBlockFloats, b.end - at));
  const std::uint32_t slot = path_.back().slot;
  if (finishes_part())
    on_node_ready_({part_ranks(), finished_, bucket, slot, slot_address_(slot) + b.begin});
  if (++current_bucket_ == buckets_.size()) end_rank();
}

// Floats [begin, begin + floats) of the rank's gradient go up its whole path.
void GradientTree::merge(std::int64_t begin, std::int64_t floats) {
  for (std::size_t i = 1; i < path_.size(); ++i) {
    const float* right = slot_address_(path_[i - 1].slot) + begin;
    float* left = slot_address_(path_[i].slot) + begin;
    kernels_.add(floats, left, right, left);
  }
}

bool GradientTree::finishes_part() const {
  if (order_ == GradientOrder::kPerWorker) return next_rank_ + 1 == range_.end;
  return std::find(maximal_.begin(), maximal_.end(), finished_) != maximal_.end();
}

RankRange GradientTree::part_ranks() const {
  return order_ == GradientOrder::kPerWorker ? range_ : covered_ranks(finished_, max_p_);
}

void GradientTree::end_rank() {
  for (std::size_t i = 0; i + 1 < path_.size(); ++i) slot_used_[path_[i].slot] = false;
  if (!finishes_part()) pending_.push_back({finished_, path_.back().slot});
  path_.clear();
  current_bucket_ = 0;
  in_rank_ = false;
  ++next_rank_;
}

void GradientTree::release_all() {
  slot_used_.assign(slot_used_.size(), false);
  pending_.clear();
  path_.clear();
  current_bucket_ = 0;
  in_rank_ = false;
  next_rank_ = range_.begin;
}

std::uint32_t GradientTree::live_buffers() const {
  return static_cast<std::uint32_t>(std::count(slot_used_.begin(), slot_used_.end(), true));
}

std::uint32_t GradientTree::acquire_slot() {
  const auto free = std::find(slot_used_.begin(), slot_used_.end(), false);
  ES_CHECK_MSG(free != slot_used_.end(), "gradient tree is out of buffers");
  *free = true;
  peak_live_ = std::max(peak_live_, live_buffers());
  return static_cast<std::uint32_t>(free - slot_used_.begin());
}

}  // namespace es::gpu
