#include "actors/head/cluster_scheduler/core/retention.h"

#include <algorithm>
#include <utility>

namespace es::actors::cluster {

std::vector<JobId> not_kept(const Retention& retention, std::vector<PastJob> jobs,
                            std::uint64_t now_unix_ms) {
  std::ranges::stable_sort(jobs, {}, &PastJob::ended_unix_ms);
  const std::size_t too_many =
      retention.jobs && jobs.size() > *retention.jobs ? jobs.size() - *retention.jobs : 0;
  // Such a clock was set back, or the age is longer than the time.
  const auto age = retention.age ? static_cast<std::uint64_t>(retention.age->count()) : 0;
  const std::uint64_t latest = now_unix_ms > age ? now_unix_ms - age : 0;
  std::vector<JobId> ids;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::uint64_t ended = jobs[i].ended_unix_ms;
    const bool too_old = retention.age && ended != 0 && ended <= latest;
    if (i < too_many || too_old) ids.push_back(std::move(jobs[i].id));
  }
  return ids;
}

}  // namespace es::actors::cluster
