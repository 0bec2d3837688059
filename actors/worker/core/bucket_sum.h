#pragma once
// BucketSum collects what a worker adds to one sum of a bucket in one step: at the owner of the
// bucket the sum over all ranks, at others partial sums on the way to it (sum_routes.h).
//
// Invariant: each rank is in the sum exactly once. A repeated contribution changes nothing, and a
// rank from two different contributions is refused. A BucketSum belongs to one generation, because
// a new placement divides the ranks differently.
#include <optional>
#include <vector>

#include "actors/base/protocol/core/messages.h"

namespace es::actors::worker {

class BucketSum {
 public:
  // `ranks`: those of the sum.
  explicit BucketSum(RankRange ranks) : ranks_(ranks) {}

  enum class Added { kCounted, kDuplicate, kOverlap };
  // REQUIRES: the contribution belongs to this sum and step.
  Added add(const protocol::Contrib& contrib);

  bool complete() const { return covered_ == ranks_.size(); }
  // Returns whether the contribution with these ranks has been counted.
  bool has(RankRange ranks) const;
  bool drain() const { return drain_; }
  // The contributions in ascending order of ranks. REQUIRES: complete().
  const std::vector<protocol::Contrib>& parts() const;
  std::vector<protocol::RankResult> results() const;

 private:
  RankRange ranks_;
  std::uint32_t covered_ = 0;
  bool drain_ = false;
  std::vector<protocol::Contrib> counted_;  // in ascending order of their first rank
};

}  // namespace es::actors::worker
