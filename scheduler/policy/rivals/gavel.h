#pragma once
// gavel-las and gavel-ftf: Gavel (Narayanan et al., "Heterogeneity-Aware Cluster Scheduling
// Policies for Deep Learning Workloads", OSDI '20), with its round-based mechanism.
//
// gavel_shares.h computes X_mt, the part of the time in which job m shall run on type t, by a
// linear program: for least attained service, or for finish-time fairness. Rounds of 360 s carry it
// out (section 5 of the paper):
//
//   priority_mt = X_mt / f_mt          f_mt: the part of its time that job m has run on type t
//
// In every round the pairs (m, t) with the largest priority run, as far as there are devices, and
// each job on one type. A job that has never run on a type with X_mt > 0 comes first there. Higher
// resources.priority comes before all that.
//
// A job runs on max_devices of one type or not at all, as in the paper. Different from it: devices
// that become idle within a round go to waiting jobs at once (rounds.h), and devices that the pairs
// leave idle go to jobs with X_mt = 0. Jobs do not share devices (the paper calls that packing).
// The policy does not support quotas.
#include "scheduler/policy/common/cluster_table.h"

namespace es::scheduler {

class GavelPolicy final : public Policy {
 public:
  enum class Objective { kLeastAttained, kFinishTime };
  explicit GavelPolicy(Objective objective) : objective_(objective) {}
  Decisions decide(const ClusterView& view) override;
  StartsWith starts_with() const override { return StartsWith::kGang; }

 private:
  const Objective objective_;
  ClusterTable table_;
};

}  // namespace es::scheduler
