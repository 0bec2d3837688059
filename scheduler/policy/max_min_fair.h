#pragma once
// max-min-fair: the smallest share is made as large as possible, heterogeneity-aware as in Gavel.
//
//   x_j = speed_j / fair_speed_j          normalized throughput on what job j is given
//   fair_speed_j = min(best speed, sum_i N_i * C_ij / n_j)       n_j: mean number of jobs since it
//                                                                was submitted
//
// Progressive filling: the job with the smallest x_j is given the next few devices of its type that
// make it faster, until nothing is left that anybody can use. Who has nothing yet comes first, the
// smallest (steps done) / (fair_speed_j * age_j) before others; it starts on the type, of those
// that are left, on which it is fastest. So when there are more jobs than devices they take turns.
//
// Does not know quotas. A job uses one type at a time, and keeps what it was given for at least 120
// s, so that not every event moves every job.
#include "scheduler/policy/board.h"

namespace es::scheduler {

class MaxMinFair final : public Policy {
 public:
  Decisions decide(const ClusterView& view) override;

 private:
  Board board_;
};

}  // namespace es::scheduler
