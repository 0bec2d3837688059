#pragma once
// sia: the goodput assignment of Sia (Jayaram Subramanya et al., "Sia: Heterogeneity-aware,
// Goodput-optimized ML-cluster Scheduling", SOSP '23), which on one device type is that of Pollux
// (Qiao et al., OSDI '21). The batch of a job is fixed here, so its goodput is its throughput.
//
// Every 60 s each job i takes at most one configuration j, a number n_j of devices of one type:
//
//   minimise   sum_ij A_ij * x_ij + 1.1 * (jobs - sum_ij x_ij)
//   where      sum_j x_ij <= 1,   sum_ij n_j * x_ij [type t] <= devices_t
//   A_ij     = (r_ij * G_ij) ^ -0.5, rounded to hundredths, at most 3000
//   G_ij     = min_devices_i * speed_ij / min_j speed_ij         normalised goodput
//   r_ij     = 1 for what job i holds, if it holds nothing, and while the devices that it has held
//              times seconds are less than pause_i; otherwise
//              max(0, age_i - changes_i * pause_i) / (age_i + pause_i)
//
// The powers, 1.1, 60 s, the rounding and the grace of young jobs are those of their program.
// The program is an integer program (assignment.h); jobs with equal rows are interchangeable, and
// the earlier one is served first. Higher resources.priority is served before lower. A job that is
// in a change keeps its devices, as there.
//
// Different from the paper: numbers of devices are powers of two and the maximum, because a policy
// does not know nodes; speeds are known, so a job may start with more than its minimum and more
// than double; devices that become idle within a round go to waiting jobs at once (rounds.h), by
// the same program. The policy does not support quotas.
#include "scheduler/policy/common/cluster_table.h"

namespace es::scheduler {

class SiaPolicy final : public Policy {
 public:
  Decisions decide(const ClusterView& view) override;
  StartsWith starts_with() const override { return StartsWith::kMinimumOfOneType; }

 private:
  ClusterTable table_;
};

}  // namespace es::scheduler
