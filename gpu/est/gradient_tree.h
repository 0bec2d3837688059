#pragma once
// GradientTree plans how the gradients of one worker's ESTs are summed while the ESTs run, and
// reports what is complete. It uses the canonical tree, or one chain at level D0 (GradientOrder).
//
// The worker runs the ESTs of its contiguous range in rank order. Each EST writes its gradient into
// a fresh buffer (slot). As soon as a bucket of the gradient is ready, it is merged with the
// finished left neighbours (left += right). So a bucket of a maximal node is final at the moment
// when the last EST below the node has produced that bucket. Slots of merged nodes are reused
// within the step. Slots of contributed (maximal) nodes do not change until release_all(), because
// the other workers read them until the step commits. A worker with a single rank copies and adds
// nothing: its part is the buffer that its EST wrote. The tree itself touches no gradient: the
// runner of the local step merges (gradient_target.h).
//
// With the order kPerWorker the worker has one part, which is the sum of its whole range.
//
// Memory: nothing is allocated after construction. Not thread-safe: the compute thread of the
// worker uses it.
#include <cstdint>
#include <functional>
#include <vector>

#include "gpu/est/gradient_target.h"
#include "gpu/est/rank_tree.h"
#include "proto/base/ids.h"

namespace es::gpu {

// A finished bucket of a part. The part is the sum of a maximal node, or of the whole range in
// order kPerWorker. It lies in the slot (or the slot only identifies it: GradientPath::whole) and
// does not change until release_all().
struct PartReady {
  RankRange ranks;  // the ranks whose gradients it sums
  std::uint32_t bucket = 0;
  std::uint32_t slot = 0;
};

class GradientTree {
 public:
  using OnPartReady = std::function<void(const PartReady&)>;

  // The tree uses the slots [0, max_live_buffers(range, max_p, order)). REQUIRES: `range` is not
  // empty and within [0, max_p); buckets > 0.
  GradientTree(RankRange range, std::uint32_t max_p, std::size_t buckets, OnPartReady on_part_ready,
               GradientOrder order = GradientOrder::kTree);

  // Starts the next EST and returns where its gradient goes; the path is valid until the rank ends.
  // REQUIRES: `rank` is the next one of the range, and all buckets of the previous rank are ready.
  GradientPath begin_rank(VirtualRank rank);

  // Says that the bucket of the current rank's gradient has been merged along its path. Reports the
  // part that this completes, if any. With the last bucket the rank ends. REQUIRES: the buckets
  // come in the order 0, 1, 2, ...
  void bucket_ready(std::uint32_t bucket);

  // Returns whether all ranks of the range have ended.
  bool complete() const { return next_rank_ == range_.end; }

  // Says that the step is committed or given up: all slots become free and the range starts again.
  void release_all();

  // The slots in which the parts will lie, in rank order.
  const std::vector<std::uint32_t>& part_slots() const { return part_slots_; }

  std::uint32_t live_buffers() const;
  // The largest value of live_buffers() since construction.
  std::uint32_t peak_live_buffers() const { return peak_live_; }

 private:
  struct Partial {
    TreeNode node;
    std::uint32_t slot;
  };
  void rehearse();
  void plan_merges();
  void plan_chain();
  bool finishes_part() const;
  bool ranges_over_all() const;
  RankRange part_ranks() const;
  void end_rank();
  std::uint32_t acquire_slot();

  // These members are constant after construction.
  RankRange range_;
  std::uint32_t max_p_;
  std::vector<TreeNode> maximal_;
  std::size_t buckets_;
  OnPartReady on_part_ready_;
  GradientOrder order_;
  std::vector<std::uint32_t> part_slots_;
  std::uint32_t kept_max_ = 0;

  // The step in progress.
  VirtualRank next_rank_;
  std::vector<Partial> pending_;  // finished nodes that wait for their right sibling, or the chain
  std::vector<bool> slot_used_;
  std::uint32_t peak_live_ = 0;

  // The rank in progress.
  bool in_rank_ = false;
  std::uint32_t current_bucket_ = 0;  // the next bucket that becomes ready
  std::vector<Partial> path_;         // the leaf, then the left partial sums that take it over
  std::vector<std::uint32_t> path_slots_;
  TreeNode finished_;  // the node that is complete when the rank ends
};

}  // namespace es::gpu
