#pragma once
// The linear programs of Gavel (Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies
// for Deep Learning Workloads", OSDI '20). They compute X_mt, the part of the time in which job m
// shall run on its gang of type t:
//
//   0 <= X_mt,  sum_t X_mt <= 1,  sum_m X_mt * gang_mt <= devices_t
//   throughput(m, X) = sum_t X_mt * speed_mt
//
// Pure and deterministic.
#include <span>
#include <vector>

#include "scheduler/policy/common/counts.h"

namespace es::scheduler {

struct GavelJob {
  std::vector<double> speeds;  // local steps per second of the gang, by type; 0: cannot run there
  Counts gangs;                // devices of the gang, by type
  // The next three are for finish_time_shares() only.
  double remaining_steps = 0;
  double age_s = 0;
  double isolated_s = 0;  // what all its steps take with a 1/n share of the cluster; > 0
};

// X, flat by job and type.
using TimeShares = std::vector<double>;

// Least attained service, aware of types (section 4.1 of the paper, "max-min fairness"):
//
//   maximise  min_m  gang_m * throughput(m, X) / throughput(m, X_equal)
//
// X_equal spends equal time on every device that the job can use. Of the many best X the program
// chooses one with a large sum of these terms, so that nothing is left idle.
TimeShares least_attained_shares(std::span<const GavelJob> jobs, const Counts& devices);

// Finish-time fairness (section 4.2, after Themis):
//
//   minimise  max_m rho_m      rho_m = (age_m + remaining_m / throughput(m, X)) / isolated_m
//
// The program is linear for a given rho, so the smallest one is found by halving. A job that is too
// late for the common rho gets its best type all the time.
TimeShares finish_time_shares(std::span<const GavelJob> jobs, const Counts& devices);

}  // namespace es::scheduler
