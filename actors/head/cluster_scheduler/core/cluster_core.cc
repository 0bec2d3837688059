// ClusterCore: events, demands, and what is displayed. Decisions and the view for the policy are in
// cluster_decisions.cc.
#include "actors/head/cluster_scheduler/core/cluster_core.h"

#include <algorithm>
#include <utility>

#include "actors/head/cluster_scheduler/core/demand_check.h"
#include "actors/head/cluster_scheduler/core/job_bounds.h"
#include "actors/head/cluster_scheduler/core/shown_job.h"
#include "proto/base/check_ok.h"
#include "proto/base/overloaded.h"
#include "scheduler/policy/common/waits.h"

namespace es::actors {

ClusterCore::ClusterCore(std::unique_ptr<scheduler::Policy> policy, cluster::Limits limits)
    : policy_(std::move(policy)), limits_(std::move(limits)) {
  renew_guarantees();
  view_.prices = limits_.prices;
}

std::vector<cluster::Effect> ClusterCore::take(const cluster::Event& event, double now_s) {
  advance(now_s);
  std::visit(
      Overloaded{[&](const cluster::NodeJoined& e) { on_node_joined(e); },
                 [&](const cluster::NodeLost& e) { leave(e.node, false); },
                 [&](const cluster::NodeDraining& e) { leave(e.node, true); },
                 [&](const cluster::NodeVacated& e) {
                   vacated_.vacate(e.node, e.leave_s);
                   pool_.vacate(e.node);
                 },
                 [&](const cluster::NodeStays& e) { on_node_stays(e); },
                 [&](const cluster::JobAdmitted& e) { on_job_admitted(e); },
                 [&](const cluster::FromJob& e) { on_job_message(e); },
                 [&](const protocol::DeviceSuspected& e) { pool_.suspect(e.device, e.reason); },
                 [&](const cluster::DeviceCleared& e) { on_device_cleared(e); },
                 [&](const cluster::ClaimMade& e) { count(claims_.make(e)); },
                 [&](const cluster::ClaimResized& e) { count(claims_.resize(e)); },
                 [&](const cluster::ClaimEnded& e) { count(claims_.end(e)); },
                 [&](const cluster::UsageRestored& e) { shares_.restore(e, now_s_); }},
      event);
  return std::exchange(effects_, {});
}

std::vector<cluster::Effect> ClusterCore::on(const cluster::Event& event, double now_s) {
  std::vector<cluster::Effect> effects = take(event, now_s);
  std::vector<cluster::Effect> decided = decide(now_s);
  effects.insert(effects.end(), decided.begin(), decided.end());
  return effects;
}

void ClusterCore::on_node_joined(const cluster::NodeJoined& event) {
  // A daemon that was started again may be the repair of what had failed.
  if (!pool_.is_live(event.node)) trials_.forgive(event.node);
  pool_.join(event.node, event.devices, event.place, event.memory);
  claims_.give_back_returned();
  // The pool of a restarted head is empty, so a device on which a process of a job still runs looks
  // free here. The job gets it back before a decision can give it to another job. `moved` stays
  // false, because the job continues on the devices that it had, and no pause is to be expected.
  for (const auto& [id, device] : event.kept)
    if (Job* job = find(id); job != nullptr && pool_.adopt(id, device)) mark_changed(*job);
}

void ClusterCore::on_node_stays(const cluster::NodeStays& event) {
  const auto was_emptied = vacated_.stay(event.node);
  count(was_emptied.has_value());
  if (!was_emptied) return;
  pool_.stay(event.node, pool_.is_live(event.node) || *was_emptied);
  claims_.give_back_returned();
}

// The daemon of the node goes away.
void ClusterCore::leave(const std::string& node, bool urgent) {
  lose(node, urgent);
  vacated_.forget_emptied(node);
}

void ClusterCore::lose(const std::string& node, bool urgent) {
  count(pool_.is_live(node));
  for (const JobId& id : pool_.lose(node)) {
    Job* job = find(id);
    if (job == nullptr) continue;  // a claim
    job->moved = true;
    job->urgent = job->urgent || urgent;
    mark_changed(*job);
  }
}

void ClusterCore::on_job_admitted(const cluster::JobAdmitted& event) {
  const auto [at, is_new] = submit_numbers_.try_emplace(event.job, next_submit_number_);
  if (!is_new || event.job.empty()) {
    ++ignored_events_;
    return;
  }
  Job& job = jobs_[next_submit_number_];
  job.number = next_submit_number_++;
  job.admitted = event;
  if (!event.submit_s) job.admitted.submit_s = now_s_;
  job.slot = slots_.take(view_.jobs);
}

void ClusterCore::on_job_message(const cluster::FromJob& event) {
  Job* const job = find(event.job);
  count(job != nullptr);
  if (job == nullptr) return;
  std::visit(Overloaded{[&](const protocol::Demand& m) { on_demand(*job, m); },
                        [&](const protocol::JobRefusals& m) { on_refusals(*job, m); },
                        [&](const protocol::BoundToType& m) {
                          job->admitted.resources.device_types = {m.type};
                          touch(*job);
                        },
                        [&](const protocol::DeviceReleased& m) { on_device_released(*job, m); },
                        [&](const protocol::DeviceFailed& m) {
                          trials_.failed(candidate_of(*job), m, now_s_);
                          touch(*job);
                        },
                        [&](const protocol::DevicesWork& m) {
                          trials_.work(event.job, m.devices);
                          touch(*job);
                        },
                        [&](const protocol::JobEnded&) { on_job_ended(*job); }},
             event.message);
}

void ClusterCore::on_demand(Job& job, const protocol::Demand& demand) {
  const Status possible = check_demand(job.admitted, job.demand, demand, pool_, limits_);
  if (!possible.ok()) {
    effects_.push_back({job.admitted.job, protocol::DemandRefused{possible.error().message}});
    return;
  }
  std::optional<protocol::JobProgress> progress = demand.progress;
  // A demand without progress does not mean that there is none: the last report stays in force.
  if (!progress && job.demand) progress = std::move(job.demand->progress);
  job.demand = demand;
  job.demand->progress = std::move(progress);
  // Proposals for an older Allocation are void, because the job's devices have changed since.
  if (demand.sequence != job.sequence) job.demand->proposals.clear();
  touch(job);
  if (demand.progress) report(job);
}

void ClusterCore::on_refusals(Job& job, const protocol::JobRefusals& message) {
  job.refusals = message.refusals;
  // The proposals that are known now were received before these refusals, and may ask for devices
  // that are refused.
  if (job.demand) job.demand->proposals.clear();
  touch(job);
}

// The message is counted even if the device was not the job's. The job compares the count in an
// Allocation with the number of its own releases, so both must count the same messages.
void ClusterCore::on_device_released(Job& job, const protocol::DeviceReleased& message) {
  ++job.releases_seen;
  touch(job);
  switch (pool_.release(job.admitted.job, message.device)) {
    case DevicePool::Released::kReturned:
      break;
    // The job held the device, so its next Allocation must be without it. `moved` stays false,
    // because the job has changed its placement already.
    case DevicePool::Released::kUnasked:
      mark_changed(job);
      break;
    case DevicePool::Released::kNotItsOwn:
      ++ignored_events_;
      break;
  }
}

void ClusterCore::on_job_ended(Job& job) {
  const JobId id = job.admitted.job;
  const std::uint64_t number = job.number;
  charge(job);
  note_sync(job);
  trials_.ended(id);
  // The job sends JobEnded after its processes have ended, so nothing runs on these devices any
  // more. Lost ones become free when their node returns.
  pool_.release_all(id);
  slots_.release(view_.jobs, job.slot);
  price_limits_.erase(number);
  sync_.forget(number);
  jobs_.erase(number);
  submit_numbers_.erase(id);
}

void ClusterCore::on_device_cleared(const cluster::DeviceCleared& event) {
  count(pool_.clear(event.device));
  trials_.forgive(event.device.node);
}

ClusterCore::Job* ClusterCore::find(const JobId& job) {
  const auto at = submit_numbers_.find(job);
  return at == submit_numbers_.end() ? nullptr : &jobs_.at(at->second);
}

void ClusterCore::advance(double now_s) {
  // This integral gives the mean number of jobs that share the cluster with a job (policy.h).
  view_.job_seconds += std::max(0.0, now_s - now_s_) * static_cast<double>(jobs_.size());
  now_s_ = std::max(now_s_, now_s);
}

void ClusterCore::touch(Job& job) {
  if (!std::exchange(job.listed, true)) touched_.push_back(job.number);
}

void ClusterCore::mark_changed(Job& job) {
  if (!std::exchange(job.changed, true)) changed_.push_back(job.number);
  touch(job);
}

// The job has just reported its progress.
void ClusterCore::report(Job& job) {
  scheduler::JobView& view = view_.jobs[job.slot];
  if (view.id.empty() || !job.demand->progress) return;
  actors::report(view, *job.demand->progress, now_s_);
  if (const double seconds = scheduler::seconds_per_device(view.sync); seconds > 0)
    sync_.learn(view.number, seconds);
}

// Called before the devices of the job change in the view.
void ClusterCore::note_sync(Job& job) {
  if (!job.loses_nothing) job.loses_nothing = sync_.loses_nothing(view_.jobs[job.slot], now_s_);
}

void ClusterCore::charge(Job& job) {
  shares_.charge(view_.jobs[job.slot], job.charged_device_s, now_s_);
}

// A job that wants exactly these devices cannot be tried on those of other types.
DeviceTrials::Candidate ClusterCore::candidate_of(const Job& job) const {
  std::vector<DeviceType> types = usable_types(job.admitted, all_types_);
  if (job.demand && job.demand->exact)
    std::erase_if(types,
                  [&](const DeviceType& type) { return job.demand->exact->count_of(type) == 0; });
  DeviceTrials::Candidate candidate{
      job.admitted.job, job.admitted.resources.suspendable, std::move(types), {}};
  if (lacks_room(job))
    candidate.lacks_room = [this, &job](const std::string& node, const DeviceType& type) {
      return missing_bytes(job.admitted.memory, type, pool_.memory_of(node, type),
                           least_workers(job)) > 0;
    };
  return candidate;
}

// The number of workers that the job has at least.
std::uint32_t ClusterCore::least_workers(const Job& job) const {
  if (job.demand && job.demand->exact) return std::max(job.demand->exact->total(), 1U);
  return std::max(job.admitted.resources.min_devices, 1U);
}

// Whether some devices have too little memory for the job.
bool ClusterCore::lacks_room(const Job& job) const {
  return std::ranges::any_of(pool_.kinds(), [&](const scheduler::RoomyDevices& kind) {
    return missing_bytes(job.admitted.memory, kind.type, kind.room, least_workers(job)) > 0;
  });
}

std::vector<ClusterCore::ClaimView> ClusterCore::claims() const {
  std::vector<ClaimView> claims;
  for (const ClaimTable::View& view : claims_.views(now_s_))
    claims.push_back({view, view.missing > 0 ? leaving(view.type) : decltype(ClaimView::waits)()});
  return claims;
}

// The jobs that were called back from devices of this type, and how many each has not left yet.
std::vector<std::pair<JobId, std::uint32_t>> ClusterCore::leaving(const DeviceType& type) const {
  std::vector<std::pair<JobId, std::uint32_t>> jobs;
  for (const auto& [number, job] : jobs_) {
    const JobId& id = job.admitted.job;
    std::uint32_t count = 0;
    // A device that the job owns but does not hold was called back, or its node is lost. Devices of
    // lost nodes are left out, because the job cannot leave them before the node returns.
    for (const DeviceId& device : pool_.owned(id))
      if (device.type == type && pool_.is_live(device.node) && !pool_.held(id).contains(device))
        ++count;
    if (count > 0) jobs.emplace_back(id, count);
  }
  return jobs;
}

std::map<JobId, WaitText> ClusterCore::waits(const std::function<bool(const JobId&)>& shows) const {
  if (view_.free.empty()) return {};
  // What stands between a job and the free devices before any policy sees it is left out first: its
  // limits by price, by faults and by devices that it still gives back.
  scheduler::ClusterView open = view_;
  open.queues.clear();
  for (const auto& [number, job] : jobs_) {
    scheduler::JobView& view = open.jobs[job.slot];
    if (view.id.empty() || !job.demand || view.budget_left <= 0) continue;
    view.pinned = job.demand->exact;
    view.types = usable_types(job.admitted, all_types_);
    view.max_devices = max_devices(job.admitted);
  }
  std::map<JobId, WaitText> texts = policy_waits(view_, decided_, policy_->starts_with(), shows);
  // What a policy says is more exact.
  const auto waiting = scheduler::waiting_beside_free(open, decided_, policy_->starts_with());
  for (const scheduler::WaitingJob& job : waiting) {
    const scheduler::JobView& view = view_.jobs[job.slot];
    texts.try_emplace(
        open.jobs[job.slot].id,
        limits_text(view,
                    {price_limits_.of(view.number), trials_.is_limited(view.id, now_s_),
                     trials_.next_end_s(now_s_), lacks_room(jobs_.at(view.number))},
                    now_s_));
  }
  return texts;
}

void ClusterCore::check_invariants() const {
  pool_.check_invariants();
  std::set<JobId> owners;
  for (const auto& [id, number] : submit_numbers_) owners.insert(id);
  for (const JobId& claim : claims_.owners()) owners.insert(claim);
  for (const JobId& owner : pool_.owners()) ES_CHECK_MSG(owners.contains(owner), owner);
  ES_CHECK(jobs_.size() == submit_numbers_.size());
  for (const auto& [number, job] : jobs_) {
    ES_CHECK(submit_numbers_.at(job.admitted.job) == number && job.number == number);
    ES_CHECK(!job.changed);
  }
  ES_CHECK(effects_.empty());
}

}  // namespace es::actors
