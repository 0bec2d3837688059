#include "gpu/est/gradient_tree.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"

namespace es::gpu {

GradientTree::GradientTree(RankRange range, std::uint32_t max_p, std::size_t buckets,
                           OnPartReady on_part_ready, GradientOrder order)
    : range_(range),
      max_p_(max_p),
      maximal_(maximal_nodes(range, max_p)),
      buckets_(buckets),
      on_part_ready_(std::move(on_part_ready)),
      order_(order),
      next_rank_(range.begin),
      slot_used_(max_live_buffers(range, max_p, order), false) {
  ES_CHECK(!range.empty() && buckets_ != 0);
  pending_.reserve(slot_used_.size());
  path_.reserve(slot_used_.size());
  path_slots_.reserve(slot_used_.size());
  rehearse();
}

// Runs a step without gradients and records which slots serve which purpose. Every step uses the
// same slots.
void GradientTree::rehearse() {
  for (VirtualRank rank = range_.begin; rank < range_.end; ++rank) {
    const GradientPath path = begin_rank(rank);
    if (path.leaves) part_slots_.push_back(path.slots.back());
    end_rank();
    kept_max_ = std::max(kept_max_, static_cast<std::uint32_t>(pending_.size()));
  }
  release_all();
  // The rehearsal used the slots like a step. Its peak is forgotten, so that peak_live_buffers()
  // speaks of real steps only.
  peak_live_ = 0;
}

GradientPath GradientTree::begin_rank(VirtualRank rank) {
  ES_CHECK(!in_rank_ && rank == next_rank_ && range_.contains(rank));
  in_rank_ = true;
  path_.push_back({{0, rank}, acquire_slot()});
  if (order_ == GradientOrder::kTree) {
    plan_merges();
  } else {
    plan_chain();
  }
  // The slots are copied into a member, because the returned path refers to them until the rank
  // ends.
  path_slots_.clear();
  for (const Partial& partial : path_) path_slots_.push_back(partial.slot);
  return {.slots = path_slots_,
          .leaves = finishes_part(),
          .whole = finishes_part() && ranges_over_all(),
          .first = rank == range_.begin,
          .kept_max = kept_max_};
}

// Plans the chain of merges that the leaf of the starting rank completes. `path_` becomes the leaf,
// followed by the left partial sums that take it over one after the other. The slot of the last one
// keeps the result.
void GradientTree::plan_merges() {
  TreeNode node = path_.front().node;
  // The loop climbs from the leaf. It ends at a left node whose sibling has ranks that run later,
  // and at a maximal node, because every sum above it would contain ranks of other workers.
  while (std::find(maximal_.begin(), maximal_.end(), node) == maximal_.end()) {
    const TreeNode parent{node.level + 1, node.index / 2};
    const bool is_left = node.index % 2 == 0;
    const bool has_sibling = !covered_ranks({node.level, node.index + 1}, max_p_).empty();
    if (is_left && has_sibling) break;  // the node waits for its right sibling
    // The ranks run in ascending order, so the sum that was kept last belongs to the left sibling.
    // That is why a stack is enough for the waiting sums.
    if (!is_left) {
      ES_CHECK(!pending_.empty() && pending_.back().node == TreeNode({node.level, node.index - 1}));
      path_.push_back(pending_.back());
      pending_.pop_back();
    }
    // A left node that has no sibling passes its sum unchanged to its parent.
    node = parent;
  }
  finished_ = node;
}

// The sum of the lower ranks takes over the gradient of this rank.
void GradientTree::plan_chain() {
  finished_ = path_.front().node;
  if (pending_.empty()) return;
  path_.push_back(pending_.back());
  pending_.pop_back();
}

void GradientTree::bucket_ready(std::uint32_t bucket) {
  ES_CHECK(in_rank_ && bucket == current_bucket_ && bucket < buckets_);
  // The last slot of the path contains the sum of this bucket. The other slots are still in use,
  // since they receive the next buckets; end_rank() frees them.
  if (finishes_part()) on_part_ready_({part_ranks(), bucket, path_.back().slot});
  if (++current_bucket_ == buckets_) end_rank();
}

bool GradientTree::finishes_part() const {
  // The chain of a worker ends with its last rank. In the tree every maximal node is a part.
  if (order_ == GradientOrder::kPerWorker) return next_rank_ + 1 == range_.end;
  return std::find(maximal_.begin(), maximal_.end(), finished_) != maximal_.end();
}

bool GradientTree::ranges_over_all() const {
  return range_.begin == 0 && range_.end == max_p_;
}

RankRange GradientTree::part_ranks() const {
  return order_ == GradientOrder::kPerWorker ? range_ : covered_ranks(finished_, max_p_);
}

void GradientTree::end_rank() {
  // All slots of the path were merged into its last slot, which alone keeps a value.
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
  // Taking the lowest free slot makes the choice a function of the ranks alone. Therefore the slots
  // that rehearse() found are those of every step.
  const auto free = std::find(slot_used_.begin(), slot_used_.end(), false);
  ES_CHECK_MSG(free != slot_used_.end(), "gradient tree is out of buffers");
  *free = true;
  peak_live_ = std::max(peak_live_, live_buffers());
  return static_cast<std::uint32_t>(free - slot_used_.begin());
}

}  // namespace es::gpu
