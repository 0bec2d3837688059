#pragma once
// Gathers the contributions to one bucket of one step, at the bucket's owner.
//
// Invariant S5 of the protocol: each rank is in the sum exactly once. Sending twice changes
// nothing; a rank from two different contributions is refused. Not kept across generations, since
// a new placement cuts the ranks differently.
#include <optional>
#include <vector>

#include "actors/protocol/messages.h"
#include "actors/worker/worker_events.h"

namespace es::actors::worker {

class BucketSum {
 public:
  explicit BucketSum(std::uint32_t max_p) : max_p_(max_p) {}

  enum class Added { kCounted, kDuplicate, kOverlap };
  // REQUIRES: the contribution belongs to this bucket and step.
  Added add(const protocol::Contrib& contrib);

  bool complete() const { return covered_ == max_p_; }
  // REQUIRES: no contribution lies partly inside `ranks`, as for the ranks of one worker.
  bool covers(RankRange ranks) const;
  bool drain() const { return drain_; }
  // Ascending by rank. REQUIRES: complete().
  std::vector<Part> parts() const;
  std::vector<protocol::RankResult> results() const;

 private:
  std::uint32_t max_p_;
  std::uint32_t covered_ = 0;
  bool drain_ = false;
  std::vector<protocol::Contrib> counted_;  // ascending by first rank
};

}  // namespace es::actors::worker
