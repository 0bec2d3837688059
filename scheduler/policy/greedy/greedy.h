#pragma once
// easyscale, the greedy policy of the paper: needs first, then the extra device with the highest
// gain.
//
// 1. Needs. In submit order, each job that lacks something it must have: the rest of its pinned
//    demand, or of its minimum. It is served from free devices. If these do not suffice, but free,
//    returning and extra devices (those of elastic jobs beyond their minimum) do, they are
//    reserved, and the extra ones are called back. Otherwise the job waits and reserves nothing, so
//    it blocks no other job.
// 2. Extras. The devices that are then free go to proposals, one per job, by the highest gain per
//    device = (speedup - 1) / count. Ties go to more devices, then to earlier submission, then by
//    type name. A job that would have more than max_devices gives back its slowest devices of other
//    types.
//
// The policy considers no priorities, queues, deadlines or remaining work, and suspends no job. A
// minimum may be of any allowed types (of one type without mix_types); types whose proposals gain
// most are preferred, then the order of names. Devices are called back from the job with the most
// extra devices, of equals from the one submitted last.
//
// The cost is the logarithm of the number of jobs for each job that changed, is granted something
// or is called back, and for each group of waiting jobs that lack the same.
#include "scheduler/policy/greedy/greedy_index.h"

namespace es::scheduler {

class GreedyPolicy final : public Policy {
 public:
  // With `homogeneous`, every job uses one device type at a time, even if it may mix types.
  explicit GreedyPolicy(bool homogeneous = false)
      : homogeneous_(homogeneous), index_(homogeneous) {}
  Decisions decide(const ClusterView& view) override;
  StartsWith starts_with() const override {
    return homogeneous_ ? StartsWith::kMinimumOfOneType : StartsWith::kMinimum;
  }

 private:
  const bool homogeneous_;
  GreedyIndex index_;
};

}  // namespace es::scheduler
