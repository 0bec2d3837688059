#include "actors/cluster_scheduler/cluster_core.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"
#include "scheduler/device_sets.h"

namespace es::actors {
namespace {

using cluster::JobAdmitted;
using cluster::JobDemand;

bool mixes_types(const JobAdmitted& job) {
  return job.level == DeterminismLevel::kD2;
}

std::uint32_t max_devices(const JobAdmitted& job) {
  return job.max_devices == 0 ? job.max_p : std::min(job.max_devices, job.max_p);
}

// "cpu-avx512:5 and cpu-avx2:3": the counts that `set` has of these types, zeros included.
std::string counts_text(const DeviceSet& set, const std::vector<DeviceType>& types) {
  std::string text;
  for (const DeviceType& type : types)
    text += (text.empty() ? "" : " and ") + type.name + ":" + std::to_string(set.count_of(type));
  return text;
}

std::vector<DeviceType> types_of(const DeviceSet& set) {
  std::vector<DeviceType> types;
  for (const DeviceCount& c : set.counts) types.push_back(c.type);
  return types;
}

// The types that the scheduler may choose for the job, ascending.
std::vector<DeviceType> usable_types(const JobAdmitted& job, const std::vector<DeviceType>& all) {
  if (job.device_types.empty()) return all;
  std::vector<DeviceType> types = job.device_types;
  std::sort(types.begin(), types.end());
  types.erase(std::unique(types.begin(), types.end()), types.end());
  return types;
}

// Why exactly these devices cannot be had; empty when they can.
std::string refuse_exact(const DeviceSet& exact, const DeviceSet& existing) {
  const std::vector<DeviceType> types = types_of(scheduler::beyond(exact, existing));
  if (types.empty()) return {};
  return "needs " + counts_text(exact, types) + ", the cluster has " + counts_text(existing, types);
}

// Why a job cannot even start; empty when it can.
std::string refuse_minimum(const JobAdmitted& job, const DeviceSet& existing) {
  const std::vector<DeviceType> types = usable_types(job, types_of(existing));
  std::uint32_t possible = 0;
  for (const DeviceType& type : types) {
    const std::uint32_t count = existing.count_of(type);
    possible = mixes_types(job) ? possible + count : std::max(possible, count);
  }
  if (possible >= job.min_devices) return {};
  return "needs min_devices = " + std::to_string(job.min_devices) +
         (mixes_types(job) ? " devices" : " devices of one type") + ", the cluster has " +
         (types.empty() ? "none" : counts_text(existing, types));
}

}  // namespace

ClusterCore::ClusterCore(std::unique_ptr<const scheduler::Policy> policy)
    : policy_(std::move(policy)) {
  ES_CHECK(policy_ != nullptr);
}

std::vector<cluster::Effect> ClusterCore::on(const cluster::Event& event) {
  std::visit([this](const auto& e) { handle(e); }, event);
  schedule();
  send_changed_allocations();
  return std::exchange(effects_, {});
}

void ClusterCore::handle(const cluster::NodeJoined& event) {
  pool_.join(event.node, event.devices);
  for (const auto& [id, device] : event.kept)
    if (Job* job = find(id); job != nullptr && pool_.adopt(id, device)) job->changed = true;
}

void ClusterCore::handle(const cluster::NodeLost& event) {
  if (!pool_.is_live(event.node)) ++ignored_events_;
  for (const JobId& job : pool_.lose(event.node)) find(job)->changed = true;
}

void ClusterCore::handle(const cluster::NodeDraining& event) {
  if (!pool_.is_live(event.node)) ++ignored_events_;
  for (const JobId& id : pool_.lose(event.node)) {
    Job& job = *find(id);
    job.changed = job.urgent = true;
  }
}

void ClusterCore::handle(const cluster::JobAdmitted& event) {
  const auto [at, is_new] = submit_numbers_.try_emplace(event.job, next_submit_number_);
  if (!is_new || event.job.empty()) {
    ++ignored_events_;
    return;
  }
  Job& job = jobs_[next_submit_number_++];
  job.admitted = event;
}

void ClusterCore::handle(const cluster::JobDemand& event) {
  Job* job = find(event.job);
  if (job == nullptr) {
    ++ignored_events_;
    return;
  }
  if (std::string refusal = refuse(*job, event); !refusal.empty()) {
    effects_.push_back(cluster::DemandRefused{event.job, std::move(refusal)});
    return;
  }
  job->demand = event;
  if (event.sequence != job->sequence) job->demand->proposals.clear();
}

// Why the demand can never be met here; empty when it can.
std::string ClusterCore::refuse(const Job& job, const cluster::JobDemand& demand) const {
  const bool judged_before = job.admitted.restored && !job.demand;
  if (!pool_.has_nodes() || judged_before) return {};
  if (demand.exact) return refuse_exact(*demand.exact, pool_.existing_devices());
  // Judged once: a job whose devices were lost since then waits for them to come back.
  const bool was_elastic = job.demand && !job.demand->exact;
  if (was_elastic) return {};
  return refuse_minimum(job.admitted, pool_.existing_devices());
}

void ClusterCore::handle(const cluster::DeviceReleased& event) {
  Job* job = find(event.job);
  if (job == nullptr) {
    ++ignored_events_;
    return;
  }
  ++job->releases_seen;
  switch (pool_.release(event.job, event.device)) {
    case DevicePool::Released::kReturned:
      break;
    case DevicePool::Released::kUnasked:
      job->changed = true;
      break;
    case DevicePool::Released::kNotItsOwn:
      ++ignored_events_;
      break;
  }
}

void ClusterCore::handle(const cluster::DeviceSuspected& event) {
  pool_.suspect(event.device, event.reason);
}

void ClusterCore::handle(const cluster::DeviceCleared& event) {
  if (!pool_.clear(event.device)) ++ignored_events_;
}

void ClusterCore::handle(const cluster::JobEnded& event) {
  const auto at = submit_numbers_.find(event.job);
  if (at == submit_numbers_.end()) {
    ++ignored_events_;
    return;
  }
  pool_.release_all(event.job);
  jobs_.erase(at->second);
  submit_numbers_.erase(at);
}

ClusterCore::Job* ClusterCore::find(const JobId& job) {
  const auto at = submit_numbers_.find(job);
  return at == submit_numbers_.end() ? nullptr : &jobs_.at(at->second);
}

scheduler::JobView ClusterCore::view(const Job& job,
                                     const std::vector<DeviceType>& all_types) const {
  const JobAdmitted& admitted = job.admitted;
  scheduler::JobView result;
  result.id = admitted.job;
  result.held = pool_.held_devices(admitted.job);
  result.min_devices = std::min(std::max(admitted.min_devices, 1U), max_devices(admitted));
  result.max_devices = max_devices(admitted);
  result.types = usable_types(admitted, all_types);
  result.mix_types = mixes_types(admitted);
  result.pinned = job.demand->exact;
  if (!result.pinned && !job.changed) result.proposals = job.demand->proposals;
  return result;
}

scheduler::ClusterView ClusterCore::view() const {
  scheduler::ClusterView result{pool_.free_devices(), pool_.returning_devices(), {}};
  const std::vector<DeviceType> all_types = types_of(pool_.existing_devices());
  for (const auto& [number, job] : jobs_)
    if (job.demand) result.jobs.push_back(view(job, all_types));
  return result;
}

void ClusterCore::schedule() {
  const scheduler::ClusterView now = view();
  const scheduler::Decisions decisions = policy_->decide(now);
  const Status status = check_decisions(now, decisions);
  ES_CHECK_MSG(status.ok(), status.error().message);
  for (const scheduler::Change& shrink : decisions.shrinks) {
    find(shrink.job)->changed = true;
    for (const DeviceCount& c : shrink.devices.counts) pool_.retire(shrink.job, c.type, c.count);
  }
  for (const scheduler::Change& grant : decisions.grants) {
    find(grant.job)->changed = true;
    for (const DeviceCount& c : grant.devices.counts) pool_.grant(grant.job, c.type, c.count);
  }
}

void ClusterCore::send_changed_allocations() {
  for (auto& [number, job] : jobs_) {
    if (!job.changed) continue;
    job.changed = false;
    if (job.demand) job.demand->proposals.clear();
    const std::set<DeviceId>& held = pool_.held(job.admitted.job);
    effects_.push_back(cluster::Allocation{.job = job.admitted.job,
                                           .sequence = ++job.sequence,
                                           .releases_seen = job.releases_seen,
                                           .devices = {held.begin(), held.end()},
                                           .urgent = std::exchange(job.urgent, false)});
  }
}

void ClusterCore::check_invariants() const {
  pool_.check_invariants();
  for (const JobId& owner : pool_.owners()) ES_CHECK_MSG(submit_numbers_.contains(owner), owner);
  ES_CHECK(jobs_.size() == submit_numbers_.size());
  for (const auto& [number, job] : jobs_) {
    ES_CHECK(submit_numbers_.at(job.admitted.job) == number);
    ES_CHECK(!job.changed);
  }
  ES_CHECK(effects_.empty());
}

}  // namespace es::actors
