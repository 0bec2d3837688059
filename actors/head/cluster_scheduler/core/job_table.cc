#include "actors/head/cluster_scheduler/core/job_table.h"

#include "proto/base/check.h"

namespace es::actors {

JobId JobTable::new_id(const std::string& name, std::uint64_t sequence) const {
  return name + "-" + std::to_string(sequence) + (tag_.empty() ? "" : "-" + tag_);
}

JobId JobTable::find(const JobId& named) const {
  return jobs_.contains(named) || tag_.empty() ? named : named + "-" + tag_;
}

void JobTable::add(const JobId& job, const std::string& tenant, const std::string& request) {
  const std::uint64_t number = order_.empty() ? 0 : order_.rbegin()->first + 1;
  jobs_[job] = {number, tenant, request};
  order_.emplace(number, job);
  if (!request.empty()) requests_[request] = job;
}

void JobTable::add_live(const JobId& job, const std::string& tenant, const std::string& request) {
  add(job, tenant, request);
  live_.insert(job);
}

void JobTable::add_over(const JobId& job, const std::string& tenant, const std::string& request) {
  add(job, tenant, request);
}

bool JobTable::end(const JobId& job) {
  if (live_.erase(job) == 0) return false;
  jobs_.at(job).keeps_devices.clear();
  return true;
}

void JobTable::forget(const JobId& job) {
  const auto at = jobs_.find(job);
  ES_CHECK(at != jobs_.end() && !live_.contains(job));
  if (!at->second.request.empty()) requests_.erase(at->second.request);
  order_.erase(at->second.number);
  jobs_.erase(at);
}

bool JobTable::is_over(const JobId& job) const {
  return jobs_.contains(job) && !live_.contains(job);
}

const JobId* JobTable::made_by(const std::string& request) const {
  const auto at = requests_.find(request);
  return at == requests_.end() ? nullptr : &at->second;
}

bool JobTable::shows(const access::Identity* client, const JobId& job) const {
  const auto at = jobs_.find(job);
  return client == nullptr || at == jobs_.end() || client->may_see(at->second.tenant);
}

void JobTable::keeps_devices(const JobId& job, const std::string& reason) {
  if (live_.contains(job)) jobs_.at(job).keeps_devices = reason;
}

std::string JobTable::why_devices_are_kept(const JobId& job) const {
  const auto at = jobs_.find(job);
  return at == jobs_.end() ? "" : at->second.keeps_devices;
}

}  // namespace es::actors
