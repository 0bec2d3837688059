#pragma once
// max-min-fair: makes the smallest share as large as possible, and considers device types as Gavel
// does.
//
//   x_j          = speed_j / fair_speed_j         normalised throughput on what job j is given
//   fair_speed_j = min(best speed, sum_i N_i * C_ij / n_j)
//                                                 n_j: mean number of jobs since j was submitted
//
// Progressive filling: the job with the smallest x_j gets the next few devices of its type that
// make it faster, until nothing is left that a job can use. Jobs that have nothing yet come first,
// the smallest (steps done) / (fair_speed_j * age_j) before others; such a job starts on the type
// on which it is fastest, out of those that are left. So jobs take turns if there are more jobs
// than devices.
//
// The policy does not support queues. A job uses one type at a time, and keeps what it was given
// for at least 120 s of steps, so that not every event moves every job.
#include "scheduler/policy/common/cluster_table.h"

namespace es::scheduler {

class MaxMinFair final : public Policy {
 public:
  Decisions decide(const ClusterView& view) override;
  StartsWith starts_with() const override { return StartsWith::kMinimumOfOneType; }

 private:
  ClusterTable table_;
};

}  // namespace es::scheduler
