#pragma once
// What lets the index (indexed_order.h) leave a job alone: the time until which its ranking stays
// the same, and the device types that could improve it. Both are bounds on the safe side. Pure
// functions of values; thread-safe.
#include <cstdint>

#include "scheduler/policy/elastic_srtf/ranking.h"

namespace es::scheduler {

// The ranking stays the same before `until_s`, while the integral of the number of jobs is at most
// `until_job_seconds`.
struct Validity {
  double until_s = kNeverS;  // not after now if every decision has to look at the job
  double until_job_seconds = kNeverS;
};
// `ranking` is rank_job() with the other arguments.
Validity validity_of(const Ranking& ranking, const JobForecast& forecast, const ClusterTable& table,
                     const RankingRules& rules);

// QueueEntry::improvable_types of the job.
std::uint64_t improvable_types_of(const JobForecast& forecast, const ClusterTable& table);

}  // namespace es::scheduler
