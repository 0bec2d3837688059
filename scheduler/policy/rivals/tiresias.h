#pragma once
// tiresias: discretised two-dimensional least attained service, Tiresias-L (Gu et al., "Tiresias: A
// GPU Cluster Manager for Distributed Deep Learning", NSDI '19).
//
//   attained service W_i = sum of devices * seconds that job i has held
//   queue 1: W_i < 3,250 device-seconds; queue 2: the others
//
// Jobs of queue 1 come first. Within a queue jobs that have started come before jobs that have not,
// each in submit order (the paper orders by the time of the first start). A job gets max_devices of
// one type or nothing, and an earlier job suspends later ones. A job that has waited eight times as
// long as it has run is promoted to queue 1 (the PromoteKnob against starvation). There it has the
// service of a new job: after it begins, it stays in queue 1 for another 3,250 device-seconds.
//
// Different from `las` (gang.h): two queues with the threshold of the authors' program and not
// three, jobs that run stay before equal ones that wait, and starving jobs are promoted. Different
// from the paper: no profile of a job's model decides whether its devices have to lie together.
// Higher resources.priority comes before all that. The policy does not support quotas.
#include "scheduler/policy/common/cluster_table.h"

namespace es::scheduler {

class TiresiasPolicy final : public Policy {
 public:
  Decisions decide(const ClusterView& view) override;
  StartsWith starts_with() const override { return StartsWith::kGang; }

 private:
  ClusterTable table_;
};

}  // namespace es::scheduler
