#pragma once
// BucketSum collects the contributions to one bucket of one step, at the bucket's owner.
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
  explicit BucketSum(std::uint32_t max_p) : max_p_(max_p) {}

  enum class Added { kCounted, kDuplicate, kOverlap };
  // REQUIRES: the contribution belongs to this bucket and step.
  Added add(const protocol::Contrib& contrib);

  bool complete() const { return covered_ == max_p_; }
  // Returns whether all of these ranks have been counted. REQUIRES: no contribution lies partly
  // inside `ranks`. This holds if `ranks` are all ranks of one worker.
  bool covers(RankRange ranks) const;
  bool drain() const { return drain_; }
  // The contributions in ascending order of ranks. REQUIRES: complete().
  const std::vector<protocol::Contrib>& parts() const;
  std::vector<protocol::RankResult> results() const;

 private:
  std::uint32_t max_p_;
  std::uint32_t covered_ = 0;
  bool drain_ = false;
  std::vector<protocol::Contrib> counted_;  // in ascending order of their first rank
};

}  // namespace es::actors::worker
