#pragma once
// The place of one job in the order of service at a moment: the classes and keys of elastic_srtf.h.
// Pure functions of values; thread-safe.
#include <cstdint>
#include <limits>

#include "scheduler/policy/common/queue_entry.h"
#include "scheduler/policy/elastic_srtf/job_forecast.h"

namespace es::scheduler {

// A job with rho_j above this multiple of rho_max is overdue: no job is moved before it.
inline constexpr double kOverdueFactor = 2;
// Part of the horizon. A narrow job with at least this alone_j is on the critical path.
inline constexpr double kCriticalPart = 0.9;
// Seconds. A job that may age within this time is looked at in every decision. While other jobs
// wait, the policy wants to be asked again after this time.
inline constexpr double kAgesSoon = 600;

struct RankingRules {
  double rho_max = 2;
  // log_step() of kCriticalPart * horizon. The default means that no job is critical.
  std::int64_t critical_step = std::numeric_limits<std::int64_t>::max();
};

struct Ranking {
  QueueEntry entry;
  std::int64_t alone_step = 0;  // log_step() of the remaining seconds alone
  // The job is in class kCritical instead of kOrdinary if alone_step >= critical_step.
  bool may_be_critical = false;
  // rho_j = late_s / bound_s: the time from submission to end, and the same with a 1/n share (at
  // least 1 s). Not set for urgent jobs.
  double late_s = 0, bound_s = 1;
  double ages_s =
      kNeverS;         // when it may age, if it waits and that is soon and nothing else happens
  bool waits = false;  // it may age, but not soon
};

// `table` contains the row from which the forecast was written.
Ranking rank_job(const JobForecast& forecast, const ClusterTable& table, const RankingRules& rules);

// Mean number of jobs that have shared the cluster with the job since its submission, itself
// included.
double mean_jobs(const JobForecast& forecast, const ClusterTable& table);
// Seconds until the deadline of the job is in danger; not positive if it is.
double deadline_slack_s(const JobForecast& forecast, double now_s);

}  // namespace es::scheduler
