// ClusterCore: decisions, and the view that the policy sees, which is kept up to date job by job.
#include <algorithm>
#include <utility>

#include "actors/head/cluster_scheduler/core/call_back.h"
#include "actors/head/cluster_scheduler/core/cluster_core.h"
#include "actors/head/cluster_scheduler/core/job_bounds.h"
#include "actors/head/cluster_scheduler/core/shown_job.h"
#include "proto/base/check_ok.h"
#include "scheduler/model/device_sets.h"
#include "scheduler/policy/common/price_choice.h"

namespace es::actors {
namespace {

using scheduler::JobView;
using scheduler::Seconds;

// In the order of the devices; empty if nothing costs anything.
std::vector<double> prices_of(const std::set<DeviceId>& devices, const DevicePool& pool,
                              const scheduler::Prices& prices) {
  std::vector<double> costs;
  if (prices.empty()) return costs;
  for (const DeviceId& device : devices)
    costs.push_back(prices.of(device.type, pool.is_spot(device.node)));
  return costs;
}

}  // namespace

std::vector<cluster::Effect> ClusterCore::decide(double now_s) {
  advance(now_s);
  share_out();
  pool_.clear_until(now_s_);
  empty_vacated_nodes();
  claims_.end_until(now_s_);
  renew_guarantees();
  touch_due_jobs();
  serve_claims();
  schedule();
  send_changed_allocations();
  return std::exchange(effects_, {});
}

void ClusterCore::share_out() {
  if (!shares_.is_due(now_s_)) return;
  for (auto& [number, job] : jobs_) charge(job);
  if (!shares_.rank(now_s_)) return;
  for (auto& [number, job] : jobs_) {
    JobView& view = view_.jobs[job.slot];
    if (view.id.empty() || view.share_level == shares_.level(view.queue)) continue;
    view.share_level = shares_.level(view.queue);
    touch(job);
  }
}

void ClusterCore::empty_vacated_nodes() {
  for (const std::string& node : vacated_.due(now_s_)) {
    if (!pool_.is_live(node)) continue;
    vacated_.emptied(node);
    lose(node, true);
  }
}

// Writes the queues of the view: those of the configuration with what is reserved for them now.
void ClusterCore::renew_guarantees() {
  auto queues = claims_.renew_guarantees(now_s_);
  if (!queues) return;
  shares_.clear_weights(*queues);
  view_.queues = *std::move(queues);
}

void ClusterCore::touch_due_jobs() {
  // A job whose choice has waited too long may need faster devices.
  for (const std::uint64_t number : price_limits_.due(now_s_)) touch(jobs_.at(number));
  for (const std::uint64_t number : sync_.measured_by().due(now_s_)) touch(jobs_.at(number));
  if (!sync_.take_changed()) return;
  for (auto& [number, job] : jobs_)
    if (view_.jobs[job.slot].sync.empty()) touch(job);
}

void ClusterCore::serve_claims() {
  for (const auto& [type, count] : claims_.serve(now_s_)) {
    // Devices that jobs are already leaving count as found. Otherwise every decision would call
    // back more devices until the first ones have arrived.
    const std::uint32_t returning = pool_.returning_devices().count_of(type);
    if (count > returning) call_back_for_claims(type, count - returning);
  }
}

void ClusterCore::call_back_for_claims(const DeviceType& type, std::uint32_t count) {
  std::vector<Job*> jobs;
  std::vector<Holder> holders;
  for (auto& [number, job] : jobs_) {
    const ResourceSpec& resources = job.admitted.resources;
    jobs.push_back(&job);
    holders.push_back({.priority = resources.priority,
                       .min_devices = std::min(resources.min_devices, max_devices(job.admitted)),
                       .suspendable = resources.suspendable,
                       .pinned = job.demand && job.demand->exact,
                       .held = pool_.held_devices(job.admitted.job)});
  }
  for (const auto& [holder, devices] : call_back(std::move(holders), type, count))
    take_back(*jobs[holder], devices);
}

void ClusterCore::schedule() {
  refresh_view();
  scheduler::Decisions decisions = policy_->decide(view_);
  // A policy that breaks a rule of policy.h is an error of the program. It is found before any
  // device changes its owner.
  const Status status = check_decisions(view_, decisions);
  ES_CHECK_MSG(status.ok(), status.error().message);
  decide_again_s_ = std::min(decisions.again_at.count(), next_decision_s());
  for (const scheduler::Change& shrink : decisions.shrinks) {
    take_back(*find(view_.jobs[shrink.slot].id), shrink.devices);
    view_.returning = scheduler::sum(view_.returning, shrink.devices);
  }
  for (const scheduler::Change& grant : decisions.grants) {
    give(*find(view_.jobs[grant.slot].id), grant.devices);
    view_.free = scheduler::beyond(view_.free, grant.devices);
  }
  decided_ = {.waits = std::move(decisions.waits), .blocked_by = decisions.blocked_by};
}

// When something changes for a job without an event.
double ClusterCore::next_decision_s() const {
  const double share_s = jobs_.empty() ? scheduler::kNever.count() : shares_.next_s(now_s_);
  return std::min({share_s, claims_.next_s(now_s_), vacated_.next_s(now_s_), price_limits_.next_s(),
                   sync_.measured_by().next_s(), trials_.next_end_s(now_s_)});
}

void ClusterCore::take_back(Job& job, const DeviceSet& devices) {
  job.moved = true;
  mark_changed(job);
  for (const DeviceCount& c : devices.counts) pool_.retire(job.admitted.job, c.type, c.count);
  // Without `urgent` the job would keep its last devices until it is given others.
  if (pool_.held(job.admitted.job).empty()) job.urgent = true;
}

void ClusterCore::give(Job& job, const DeviceSet& devices) {
  const JobId& id = job.admitted.job;
  DevicePool::Wish wish = trials_.wish_of(candidate_of(job), now_s_);
  wish.room = max_devices(job.admitted);
  wish.room -= std::min(wish.room, pool_.held_devices(id).total() + devices.total());
  // Only such a wish may find less than is free.
  const bool may_lack = wish.avoids || wish.cut;
  const std::set<DeviceId> before = may_lack ? pool_.held(id) : std::set<DeviceId>();
  std::uint32_t given = 0;
  for (const DeviceCount& c : devices.counts) given += pool_.grant(id, c.type, c.count, wish);
  // Whether the job can use what it holds now, although it is less than was decided.
  const bool may_have_part =
      !job.demand->exact && pool_.held(id).size() >= view_.jobs[job.slot].min_devices;
  if (given < devices.total() && !may_have_part) {
    const std::set<DeviceId> held = pool_.held(id);
    for (const DeviceId& device : held)
      if (!before.contains(device)) pool_.release(id, device);
    given = 0;
  }
  if (given == 0) return;
  job.moved = true;
  mark_changed(job);
}

void ClusterCore::send_changed_allocations() {
  std::vector<std::uint64_t> numbers = std::exchange(changed_, {});
  // The messages leave in submit order, whatever the order of the changes.
  std::sort(numbers.begin(), numbers.end());
  for (const std::uint64_t number : numbers) {
    const auto at = jobs_.find(number);
    if (at == jobs_.end()) continue;
    Job& job = at->second;
    if (job.demand) job.demand->proposals.clear();
    const std::set<DeviceId>& held = pool_.held(job.admitted.job);
    effects_.push_back(
        {job.admitted.job,
         protocol::Allocation{.sequence = ++job.sequence,
                              .releases_seen = job.releases_seen,
                              .devices = {held.begin(), held.end()},
                              .urgent = std::exchange(job.urgent, false),
                              .prices_per_hour = prices_of(held, pool_, limits_.prices)}});
    // Until the job reports again, the policy works with a predicted speed. Without it, a policy
    // would take the speed of the old devices for that of the new ones.
    if (JobView& view = view_.jobs[job.slot]; job.moved && !view.id.empty()) {
      note_sync(job);
      expect_change(view, pool_.held_devices(job.admitted.job), now_s_);
    }
    // The sequence has grown, so the proposals of the last demand are void, and the job is not
    // settled until its next demand names this Allocation.
    job.changed = job.moved = false;
    touch(job);
  }
}

// Prepares the view for one decision. Policies do not see the devices that claims have or wait for:
// a plan that counts on such a device would never be carried out and would be made again at every
// event.
void ClusterCore::refresh_view() {
  std::vector<DeviceType> types = types_of(pool_.existing_devices());
  const bool all = types != all_types_;  // jobs without device_types may use other types now
  if (all) {
    all_types_ = std::move(types);
    for (auto& [number, job] : jobs_) touch(job);
  }
  touch_limited_jobs();
  view_.free = pool_.free_devices();
  view_.returning = scheduler::beyond(pool_.returning_devices(), claims_.missing(now_s_));
  view_.total = scheduler::beyond(pool_.existing_devices(), claims_.taken(now_s_));
  view_.now = Seconds(now_s_);
  std::vector<std::size_t> changed = slots_.take_left();
  for (const std::uint64_t number : touched_) {
    const auto at = jobs_.find(number);
    if (at == jobs_.end()) continue;
    refresh(at->second);
    at->second.listed = false;
    changed.push_back(at->second.slot);
  }
  touched_.clear();
  std::sort(changed.begin(), changed.end());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  view_.changed = std::move(changed);
}

// What such a job can be given depends on all free devices, not only on what has changed for it.
void ClusterCore::touch_limited_jobs() {
  // Those that were limited in the last view, and may not be any more.
  for (const JobId& id : std::exchange(limited_, {}))
    if (Job* job = find(id)) touch(*job);
  for (const JobId& id : trials_.failed_jobs()) touch(*find(id));
  if (!trials_.has_cuts(now_s_)) return;
  for (auto& [number, job] : jobs_) touch(job);
}

void ClusterCore::refresh(Job& job) {
  // A job without a demand has not said what it can use. Its slot stays empty, so no policy gives
  // it devices.
  if (!job.demand) return;
  const cluster::JobAdmitted& admitted = job.admitted;
  JobView& view = view_.jobs[job.slot];
  if (view.id.empty()) {
    view = first_view(admitted, job.number, limits_.queues, now_s_);
    if (shares_.is_on()) view.share_level = shares_.level(view.queue);
    view.job_seconds_at_submit = view_.job_seconds;
    report(job);
  }
  note_sync(job);
  scheduler::advance_work(view, Seconds(now_s_));
  view.types = usable_types(admitted, all_types_);
  view.max_devices = max_devices(admitted);
  const std::vector<DeviceType>& named = admitted.resources.device_types;
  if (!named.empty()) view.gang_type = named.front();
  DeviceSet held = pool_.held_devices(admitted.job);
  if (view.held != held) view.changed = Seconds(now_s_);
  view.held = std::move(held);
  view.pinned = job.demand->exact;
  const auto& progress = job.demand->progress;
  view.settled =
      !job.changed && job.demand->sequence == job.sequence && (!progress || progress->adopted);
  limit_holding(view, pool_.returning_count(view.id));
  view.proposals.clear();
  // A job with an Allocation that is not sent yet would be judged by proposals for its earlier
  // devices.
  if (!view.pinned && !job.changed) view.proposals = job.demand->proposals;
  limit_by_price(job, view);
  // A refusal of a set below the job's minimum (its user's choice) is hidden, because the job must
  // still be able to start.
  view.refusals.clear();
  for (const scheduler::Refusal& refusal : job.refusals)
    if (refusal.held.total() >= view.min_devices) view.refusals.push_back(refusal);
  if (trials_.is_limited(view.id, now_s_) || lacks_room(job)) {
    limited_.insert(view.id);
    trials_.limit(candidate_of(job), view, now_s_);
  }
  sync_.expect(view, job.loses_nothing);
}

void ClusterCore::limit_by_price(const Job& job, JobView& view) {
  if (limits_.prices.empty()) return;
  price_limits_.set(
      job.number,
      scheduler::limit_by_price(view, view_.total, limits_.prices, Seconds(now_s_)).count());
}

}  // namespace es::actors
