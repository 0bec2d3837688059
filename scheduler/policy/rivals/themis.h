#pragma once
// themis: finish-time fairness by auctions (Mahajan et al., "Themis: Fair and Efficient GPU Cluster
// Scheduling", NSDI '20).
//
//   rho_i(n, t) = (age_i + remaining_i / speed_i(n, t)) / (steps_i / isolated_i)
//
// steps_i is all its steps, and isolated_i the speed with a 1/n share of the cluster since the job
// was submitted, so a job that waits gets later and later. Devices are
// leased for 1,200 s. When leases end or devices become idle:
//
//   filter      The jobs with the largest present rho bid: of all that could use devices the part
//               1 - f with f = 0.8, at least one.
//   bids        V_i(n, t) = 1 / rho_i(n, t), for powers of two of each type, and for nothing.
//   allocation  maximise prod_i V_i (an integer program on log V_i, assignment.h)
//   payment     Bidder i keeps the part c_i = prod_{j != i} V_j(all bid) / prod_{j != i} V_j(i does
//               not bid) of what it won, rounded down, at least its minimum. So no job gains by a
//               bid that is not true.
//   leftover    What no bidder won or what was paid goes to the other jobs, the largest rho first.
//
// V_i of nothing is a hundredth of the smallest V_i of something: in the paper it is 0, and with
// more bidders than devices every product would be 0.
//
// Different from the paper: a job bids and not an application of several jobs; leases begin
// together, and devices that become idle before are auctioned among waiting jobs only (rounds.h);
// at most 32 jobs bid; leftovers are given by rho and not at random. Higher resources.priority is
// served before lower. The policy does not support quotas.
#include "scheduler/policy/common/cluster_table.h"

namespace es::scheduler {

class ThemisPolicy final : public Policy {
 public:
  Decisions decide(const ClusterView& view) override;
  StartsWith starts_with() const override { return StartsWith::kMinimumOfOneType; }

 private:
  ClusterTable table_;
};

}  // namespace es::scheduler
