#pragma once
// The place of one job in the order of service at a moment: the classes and keys of elastic_srtf.h.
// Pure functions of values; thread-safe.
#include <cstdint>
#include <limits>

#include "scheduler/policy/common/queue_entry.h"
#include "scheduler/policy/elastic_srtf/job_forecast.h"

namespace es::scheduler {

// Part of the horizon. A narrow job that still needs at least this is on the critical path. It is
// nearly 1, because a job that can wait longer without delaying the end gains nothing by coming
// first, and delays those that would end before it. 0.9 costs 0.5 % of the mean completion time and
// 13 % more rescales; without critical jobs the makespan is 6 % longer.
inline constexpr double kCriticalPart = 0.999;
// Seconds. A job that may age within this time is looked at in every decision. While other jobs
// wait, the policy wants to be asked again after this time.
inline constexpr double kAgesSoon = 600;

struct RankingRules {
  double rho_max = 2;
  // fine_step() of kCriticalPart * horizon. The default means that no job is critical.
  std::int64_t critical_step = std::numeric_limits<std::int64_t>::max();
};

struct Ranking {
  QueueEntry entry;
  std::int64_t alone_step = 0;  // fine_step() of JobForecast::critical_s()
  // The job is in class kCritical instead of kOrdinary if alone_step >= critical_step.
  bool may_be_critical = false;
  // rho_j = late_s / bound_s: the time from submission to end times hold_factor(), and the time
  // with a 1/n share (at least 1 s). Not set for urgent jobs.
  double late_s = 0, bound_s = 1;
  double ages_s =
      kNeverS;         // when it may age, if it waits and that is soon and nothing else happens
  bool waits = false;  // it may age, but not soon
  // Of a job that has aged and waits, the time from submission to end, less the present time.
  double aged_wait_s = kNeverS;
};

// When the policy wants to be asked again because the rho of a job that has aged and waits has
// grown by a step of its key. `aged_wait_s` is the smallest one of all jobs.
double aged_again_s(double aged_wait_s, double now_s);

// When the horizon has fallen so far that a waiting narrow job on this step becomes critical, if it
// falls by a second in each second; at least one second from now.
double critical_at_s(std::int64_t alone_step, double horizon_s, double now_s);

// `table` contains the row from which the forecast was written.
Ranking rank_job(const JobForecast& forecast, const ClusterTable& table, const RankingRules& rules);

// Mean number of jobs that have shared the cluster with the job since its submission, itself
// included.
double mean_jobs(const JobForecast& forecast, const ClusterTable& table);
// Seconds until the deadline of the job is in danger; not positive if it is.
double deadline_slack_s(const JobForecast& forecast, double now_s);

}  // namespace es::scheduler
