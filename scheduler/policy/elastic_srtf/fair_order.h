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
// Turns are dear while there are more jobs than devices, and the jobs, with their best devices,
// take less than kDearPauses of their pauses in the mean. Where hundreds of jobs are late, turns
// would then cost each of them pauses and end none earlier, so jobs run one after the other:
//
//   deadline_j  submission + stretch * fair_j, with the least stretch, at least rho_max, with which
//               all jobs can end in time (fair_deadlines.h)
//   turn_j      max(kDearTurnPart * fair_j, kPausesToGain of its pauses)
//
// Class 3 has the jobs that cannot wait any more, because they or others would then miss their
// deadlines, the earliest deadline first. So the others are served as fast as possible while no job
// becomes later than it has to. The deadline of a job that waits counts as later by turn_j, and a
// job that holds devices cannot wait if it could for turn_j at most. So a short job takes devices
// of a wide one easily, and a wide one those of short ones when it is later by a part of its own,
// longer, time. Jobs that are too late unless they have their best devices from now on come first:
// what waits for a wide one has time, however early its deadline is. Otherwise an endless stream of
// short jobs would keep a wide one waiting.
//
// A job of unknown length has the rho_j of ranking.h. The cost is linear in the number of jobs, and
// n * log(n) for n jobs while turns are dear.
#include <cstddef>
#include <vector>

#include "scheduler/policy/elastic_srtf/fair_deadlines.h"
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
    // While turns are dear.
    double key_s = 0;    // of two jobs that cannot wait, the smaller one comes first
    double waits_s = 0;  // how long it can wait; not positive if it cannot
  };

  void project(const ClusterTable& table);
  FairJob fair_job(const ClusterTable& table, const JobForecast& forecast, double ahead_s,
                   double job_s) const;
  void find_next_change(const ClusterTable& table);
  bool are_turns_dear(const ClusterTable& table) const;
  // Writes key_s and waits_s of all jobs of known length.
  void find_deadlines(const ClusterTable& table);
  void set_place(const JobRow& row, const JobForecast& forecast, const FairDeadline& deadline);
  Ranking rank_by_deadline(const JobForecast& forecast, Ranking ranking) const;

  bool dear_ = false;
  double level_ = 0;           // jobs with a larger rho come first
  std::vector<FairJob> jobs_;  // by slot; rho 0 for jobs of unknown length
};

}  // namespace es::scheduler
