#pragma once
// GradientTree: plans how the gradients of one worker's ESTs are added up while they run, in the
// canonical tree (or, at level D0, in one chain: GradientOrder), and reports what is complete.
//
// The worker runs the ESTs of its contiguous range in rank order. Each writes its gradient into a
// fresh buffer (slot); as soon as a bucket of it is ready, that bucket is merged with the finished
// left neighbours (left += right), so a maximal node's bucket is final the moment the last EST
// below it has produced that bucket. Slots of merged nodes are used again within the step; slots of
// contributed (maximal) nodes stay untouched until release_all(), because the other workers read
// them until the step commits. A worker of a single rank copies and adds nothing: the part is the
// buffer that its EST wrote. The tree touches no gradient: what runs the local step merges
// (gradient_target.h).
//
// In order kPerWorker the worker has one part, the sum of its whole range.
//
// Memory: nothing is allocated after construction.
// Not thread-safe: used by the worker's compute thread.
#include <cstdint>
#include <functional>
#include <vector>

#include "gpu/est/gradient_target.h"
#include "gpu/est/rank_tree.h"
#include "proto/base/ids.h"

namespace es::gpu {

// A finished bucket of a part: of a maximal node, or of the whole range. It lies in the slot (or is
// known by it: GradientPath::whole), and stays as it is until release_all().
struct NodeReady {
  RankRange ranks;  // whose sum it is
  TreeNode node;    // the node that covers them; order kTree only
  std::uint32_t bucket = 0;
  std::uint32_t slot = 0;
};

class GradientTree {
 public:
  using OnNodeReady = std::function<void(const NodeReady&)>;

  // Slots [0, max_live_buffers(range, max_p, order)) are used.
  // REQUIRES: range is not empty and within [0, max_p); buckets > 0.
  GradientTree(RankRange range, std::uint32_t max_p, std::size_t buckets, OnNodeReady on_node_ready,
               GradientOrder order = GradientOrder::kTree);

  // Starts the next EST: where its gradient goes (valid until the rank ends).
  // REQUIRES: rank is the next of the range and the previous rank has all its buckets ready.
  GradientPath begin_rank(VirtualRank rank);

  // Bucket `bucket` of the current rank's gradient has gone its path: reports what that completes.
  // With the last bucket the rank ends. REQUIRES: buckets come in order 0, 1, 2, ...
  void bucket_ready(std::uint32_t bucket);

  // Whether all ranks of the range have ended.
  bool complete() const { return next_rank_ == range_.end; }

  // The step is committed, or given up: all slots are free and the range starts again.
  void release_all();

  // The slots that parts come to lie in, in rank order.
  const std::vector<std::uint32_t>& part_slots() const { return part_slots_; }

  std::uint32_t live_buffers() const;
  // The highest live_buffers() since construction.
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

  // Constant after construction.
  RankRange range_;
  std::uint32_t max_p_;
  std::vector<TreeNode> maximal_;
  std::size_t buckets_;
  OnNodeReady on_node_ready_;
  GradientOrder order_;
  std::vector<std::uint32_t> part_slots_;
  std::uint32_t kept_max_ = 0;

  // The step in progress.
  VirtualRank next_rank_;
  std::vector<Partial> pending_;  // finished nodes that wait for their right sibling; or the chain
  std::vector<bool> slot_used_;
  std::uint32_t peak_live_ = 0;

  // The rank in progress.
  bool in_rank_ = false;
  std::uint32_t current_bucket_ = 0;  // the next one to become ready
  std::vector<Partial> path_;         // its leaf, then the left partial sums that take it over
  std::vector<std::uint32_t> path_slots_;
  TreeNode finished_;  // the node that is complete once the rank is
};

}  // namespace es::gpu
