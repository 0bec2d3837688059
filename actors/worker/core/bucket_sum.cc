#include "actors/worker/core/bucket_sum.h"

#include <algorithm>

#include "proto/base/check.h"

namespace es::actors::worker {

using protocol::Contrib;

BucketSum::Added BucketSum::add(const Contrib& contrib) {
  const RankRange range = contrib.ranks;
  for (const Contrib& other : counted_) {
    // The same part can arrive twice, and then it must not be added twice. A part that shares only
    // some ranks with another one is an error of the program: there is no order in which both could
    // be summed.
    if (other.stamp.sender == contrib.stamp.sender && other.ranks == contrib.ranks) {
      return Added::kDuplicate;
    }
    const RankRange taken = other.ranks;
    if (range.begin < taken.end && taken.begin < range.end) return Added::kOverlap;
  }
  // The parts are kept in the order of their ranks, not of their arrival, because the order of the
  // additions decides the bits of the sum.
  const auto after = std::find_if(counted_.begin(), counted_.end(), [&](const Contrib& other) {
    return other.ranks.begin > range.begin;
  });
  counted_.insert(after, contrib);
  covered_ += range.size();
  // One member that was asked to drain is enough. All members receive this flag with the same
  // result, so all of them stop after the same step.
  drain_ = drain_ || contrib.drain;
  return Added::kCounted;
}

bool BucketSum::has(RankRange ranks) const {
  return std::ranges::any_of(counted_,
                             [&](const Contrib& contrib) { return contrib.ranks == ranks; });
}

const std::vector<Contrib>& BucketSum::parts() const {
  ES_CHECK(complete());
  return counted_;
}

std::vector<protocol::RankResult> BucketSum::results() const {
  ES_CHECK(complete());
  std::vector<protocol::RankResult> results;
  for (const Contrib& contrib : counted_) {
    results.insert(results.end(), contrib.results.begin(), contrib.results.end());
  }
  return results;
}

}  // namespace es::actors::worker
