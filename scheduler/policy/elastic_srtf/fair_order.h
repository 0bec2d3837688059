#pragma once
// FairOrder: the order of service of elastic-srtf at the fair end, for fairness > 0.5. It differs
// from FullScanOrder in class 3 (elastic_srtf.h): which jobs are in it, and in which order. With
// s = 1.5 shares of the cluster from now on (fair_projection.h)
//
//   end_j  = age_j + pauses to come + seconds until job j would end
//   n_j    = mean number of jobs from its submission until then
//   fair_j = start + steps_j * max(1 / best speed, n_j / sum_i N_i * C_ij)
//   rho_j  = end_j / fair_j
//
// and jobs with rho_j > 0.9 * rho_max are served before those of the classes 4 and 5, the largest
// rho_j first. No projection of the makespan moves a job before them.
//
//   number of jobs  FullScanOrder takes the mean until now. At the end of a crowd that is too
//                   large: a job that has waited among 40 others seems to be entitled to a small
//                   share, and is alone when it runs. Therefore the number is projected.
//   s               A wide job could catch up if it had the whole cluster, but others arrive in the
//                   meantime. With s = 1 every waiting job would be late, and the order would be
//                   that of max-min-fair; with the whole cluster wide jobs begin too late.
//   turns           A job that holds devices counts as later by a turn: max(120 s, ten pauses, 2 %
//                   of fair_j), with at most a quarter of fair_j in place of 120 s. So another one
//                   takes them when it is later by that, and jobs that are equally late take turns
//                   of at least this length.
//   communication   The best speed of fair_j is the one without communication, as in the report of
//                   the simulator.
//
// A job of unknown length has the rho_j of ranking.h. The cost is linear in the number of jobs.
#include <cstddef>
#include <vector>

#include "scheduler/policy/elastic_srtf/full_scan_order.h"

namespace es::scheduler {

// Above this value of the option `fairness` the order is that of FairOrder.
inline constexpr double kFairFrom = 0.5;
// With more jobs than this the order is that of the other values of the option, because a decision
// about all jobs would take too long.
inline constexpr std::size_t kFairJobsMax = 4096;

class FairOrder final : public FullScanOrder {
 public:
  explicit FairOrder(double rho_max) : FullScanOrder(rho_max) {}

 protected:
  void begin_ranking(const ClusterTable& table) override;
  Ranking rank(const JobForecast& forecast, const ClusterTable& table) const override;

 private:
  struct FairJob {
    double rho = 0;
    double fair_s = 1;
  };

  void project(const ClusterTable& table);
  FairJob fair_job(const ClusterTable& table, const JobForecast& forecast, double ahead_s,
                   double job_s) const;
  void find_next_change(const ClusterTable& table);

  double level_ = 0;           // jobs with a larger rho come first
  std::vector<FairJob> jobs_;  // by slot; rho 0 for jobs of unknown length
};

}  // namespace es::scheduler
