#pragma once
// Which jobs a list contains (client.capnp, ListJobs).
#include <cstdint>
#include <string>
#include <string_view>

#include "actors/base/access/core/identity.h"

namespace es::actors::cluster {

struct JobFilter {
  std::string state;   // only jobs in this state; "live": jobs that are not over; empty: any
  std::string tenant;  // only jobs of this tenant; empty: any
  std::string search;  // a part of the id or of the name; empty: any
  // The part of the list: at most `limit` jobs after the first `offset` ones; 0: all of them.
  std::uint64_t offset = 0;
  std::uint32_t limit = 0;
  bool newest_first = false;
  // Of the jobs that are over only those that ended at most this long ago; 0: all of them.
  std::uint64_t ended_within_ms = 0;
  auto operator<=>(const JobFilter&) const = default;
};

// What a filter needs to know of a job.
struct JobFacts {
  std::string_view id, name, state, tenant;
  bool over = false;
  std::uint64_t ended_unix_ms = 0;  // 0: it is not over, or not known
};

// Whether the list of this client contains the job. `client` is nullptr if it may see all jobs.
inline bool matches(const JobFacts& job, const JobFilter& filter, const access::Identity* client,
                    std::uint64_t now_unix_ms) {
  const auto has = [&](std::string_view text) {
    return text.find(filter.search) != std::string_view::npos;
  };
  const bool in_state =
      filter.state.empty() || job.state == filter.state || (filter.state == "live" && !job.over);
  const bool recent = !job.over || filter.ended_within_ms == 0 ||
                      job.ended_unix_ms + filter.ended_within_ms >= now_unix_ms;
  return in_state && recent && (client == nullptr || client->may_see(std::string(job.tenant))) &&
         (filter.tenant.empty() || job.tenant == filter.tenant) && (has(job.id) || has(job.name));
}

}  // namespace es::actors::cluster
