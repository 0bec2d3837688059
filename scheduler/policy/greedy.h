#pragma once
// easyscale: the paper's greedy policy. Needs first, then the extra device that brings most.
//
//   1. needs    In submit order, each job that lacks something it must have: the rest of its pinned
//               demand, or of its minimum. Served from free devices. When these do not suffice, but
//               free, returning and extra devices (those of elastic jobs beyond their minimum) do:
//               they are reserved, and the extras are called back. Else the job waits and reserves
//               nothing, so it blocks nobody.
//   2. extras   What is then free goes to proposals, one per job, in the order of
//
//                 gain per device = (speedup - 1) / count, higher first;
//                 ties: more devices, then earlier submitted, then type name.
//
// Knows no priorities, quotas, deadlines or remaining work, and suspends nobody. A minimum may be
// of any allowed types (one type without mix_types), by preference the types whose proposals gain
// most, then by name. Devices are called back from the job with most extra devices, the latest
// submitted among equals.
//
// Cost: the logarithm of the number of jobs for each job that changed, is granted something or
// called back, and for each group of waiting jobs that lack the same.
#include "scheduler/policy/greedy_index.h"

namespace es::scheduler {

class GreedyPolicy final : public Policy {
 public:
  // `homogeneous`: every job uses one device type at a time, whatever it may mix.
  explicit GreedyPolicy(bool homogeneous = false)
      : homogeneous_(homogeneous), index_(homogeneous) {}
  Decisions decide(const ClusterView& view) override;

 private:
  const bool homogeneous_;
  GreedyIndex index_;
};

}  // namespace es::scheduler
