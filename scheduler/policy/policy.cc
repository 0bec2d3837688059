#include "scheduler/policy/policy.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "scheduler/device_sets.h"

namespace es::scheduler {
namespace {

struct JobChange {
  const JobView* job = nullptr;
  DeviceSet granted;
  DeviceSet shrunk;
};

Status broken(const JobView& job, const std::string& rule) {
  return failure("policy: job " + job.id + ": " + rule);
}

Status check_pinned(const JobView& job, const JobChange& change) {
  const DeviceSet missing = beyond(*job.pinned, job.held);
  if (change.granted == missing && change.shrunk.empty()) return {};
  return broken(job, "pinned to \"" + job.pinned->text() + "\", holds \"" + job.held.text() +
                         "\", granted \"" + change.granted.text() + "\", shrunk by \"" +
                         change.shrunk.text() + '"');
}

bool is_proposal(const JobView& job, const DeviceSet& granted) {
  return granted.counts.size() == 1 &&
         std::any_of(job.proposals.begin(), job.proposals.end(), [&](const Proposal& p) {
           return p.type == granted.counts[0].type && p.count == granted.counts[0].count;
         });
}

Status check_elastic_grant(const JobView& job, const DeviceSet& granted) {
  const std::uint32_t held = job.held.total();
  const bool to_minimum = held < job.min_devices;
  if (to_minimum && held + granted.total() != job.min_devices)
    return broken(job, "granted \"" + granted.text() + "\", which does not make its minimum of " +
                           std::to_string(job.min_devices));
  if (!to_minimum && !is_proposal(job, granted))
    return broken(job, "granted \"" + granted.text() + "\", which it did not propose");
  for (const DeviceCount& c : granted.counts)
    if (std::find(job.types.begin(), job.types.end(), c.type) == job.types.end())
      return broken(job, "granted type " + c.type.name + ", which it may not use");
  const DeviceSet after = sum(job.held, granted);
  if (after.total() > job.max_devices) return broken(job, "granted more than its maximum");
  if (!job.mix_types && after.counts.size() > 1) return broken(job, "granted a mix of types");
  return {};
}

Status check_elastic(const JobView& job, const JobChange& change) {
  if (!change.granted.empty() && !change.shrunk.empty())
    return broken(job, "granted and shrunk at once");
  if (!change.granted.empty()) return check_elastic_grant(job, change.granted);
  if (!job.held.contains(change.shrunk)) return broken(job, "shrunk by more than it holds");
  if (job.held.total() - change.shrunk.total() < job.min_devices)
    return broken(job, "shrunk below its minimum");
  return {};
}

using ChangesByJob = std::map<std::string_view, JobChange>;

// Enters a list of changes; every entry must be new, not empty and of a known job.
Status enter(const std::vector<Change>& changes, DeviceSet JobChange::*part, ChangesByJob& by_job) {
  for (const Change& change : changes) {
    const auto found = by_job.find(change.job);
    if (found == by_job.end() || change.devices.empty() || !(found->second.*part).empty())
      return failure("policy: job " + change.job + ": unknown, changed twice or by nothing");
    found->second.*part = change.devices;
  }
  return {};
}

}  // namespace

Status check_decisions(const ClusterView& view, const Decisions& decisions) {
  if (decisions.grants.empty() && decisions.shrinks.empty()) return {};
  ChangesByJob by_job;
  for (const JobView& job : view.jobs) by_job[job.id].job = &job;
  ES_RETURN_IF_ERROR(enter(decisions.grants, &JobChange::granted, by_job));
  ES_RETURN_IF_ERROR(enter(decisions.shrinks, &JobChange::shrunk, by_job));
  DeviceSet granted;
  for (const auto& [id, change] : by_job) {
    if (change.granted.empty() && change.shrunk.empty()) continue;
    granted = sum(granted, change.granted);
    ES_RETURN_IF_ERROR(change.job->pinned ? check_pinned(*change.job, change)
                                          : check_elastic(*change.job, change));
  }
  if (!view.free.contains(granted))
    return failure("policy: granted \"" + granted.text() + "\" of free \"" + view.free.text() +
                   '"');
  return {};
}

}  // namespace es::scheduler
