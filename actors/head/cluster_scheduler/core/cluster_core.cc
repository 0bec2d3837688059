// ClusterCore: events, demands, and the way of devices between jobs. The view for the policy is in
// cluster_view.cc, and claims are in cluster_claims.cc.
#include "actors/head/cluster_scheduler/core/cluster_core.h"

#include <algorithm>
#include <utility>

#include "actors/head/cluster_scheduler/core/job_bounds.h"
#include "proto/base/check_ok.h"
#include "proto/base/overloaded.h"
#include "scheduler/model/device_sets.h"

namespace es::actors {
namespace {

using cluster::JobAdmitted;

// "cpu-avx512:5 and cpu-avx2:3": the counts of these types in `set`, including zeros.
std::string counts_text(const DeviceSet& set, const std::vector<DeviceType>& types) {
  std::string text;
  for (const DeviceType& type : types)
    text += (text.empty() ? "" : " and ") + type.name + ":" + std::to_string(set.count_of(type));
  return text;
}

// Error (refused): exactly these devices are not available.
Status check_exact(const DeviceSet& exact, const DeviceSet& existing) {
  const std::vector<DeviceType> types = types_of(scheduler::beyond(exact, existing));
  if (types.empty()) return {};
  return refused("needs " + counts_text(exact, types) + ", the cluster has " +
                 counts_text(existing, types));
}

// Error (refused): the queue of a job can never have what the job needs: these devices, or its
// minimum.
Status check_queue(const JobAdmitted& job, const std::optional<DeviceSet>& exact,
                   const std::vector<scheduler::Queue>& queues) {
  const std::string name =
      scheduler::queue_of_job(queues, job.resources.queue, job.resources.tenant);
  if (name.empty()) return {};
  std::uint64_t possible = 0;
  for (const DeviceType& type : exact ? types_of(*exact) : job.resources.device_types) {
    const std::uint64_t most = scheduler::most_of_queue(queues, name, type);
    if (exact && exact->count_of(type) > most)
      return refused("needs " + counts_text(*exact, {type}) + ", and queue " + name +
                     " may have at most " + std::to_string(most));
    possible = mixes_types(job) ? possible + most : std::max(possible, most);
  }
  // A job that may use every type is not judged: a type without a limit may join the cluster later.
  if (exact || job.resources.device_types.empty()) return {};
  if (possible >= job.resources.min_devices) return {};
  return refused("needs min_devices = " + std::to_string(job.resources.min_devices) +
                 ", and queue " + name + " may have at most " + std::to_string(possible));
}

// Error (refused): the job cannot even start.
Status check_minimum(const JobAdmitted& job, const DeviceSet& existing) {
  const std::vector<DeviceType> types = usable_types(job, types_of(existing));
  std::uint32_t possible = 0;
  for (const DeviceType& type : types) {
    const std::uint32_t count = existing.count_of(type);
    possible = mixes_types(job) ? possible + count : std::max(possible, count);
  }
  const std::uint32_t least = job.resources.min_devices;
  if (possible >= least) return {};
  return refused("needs min_devices = " + std::to_string(least) +
                 (mixes_types(job) ? " devices" : " devices of one type") + ", the cluster has " +
                 (types.empty() ? "none" : counts_text(existing, types)));
}

}  // namespace

ClusterCore::ClusterCore(std::unique_ptr<scheduler::Policy> policy, cluster::Limits limits)
    : policy_(std::move(policy)), limits_(std::move(limits)) {
  ES_CHECK(policy_ != nullptr);
  if (limits_.share_half_life_s > 0 && !limits_.queues.empty())
    shares_.emplace(limits_.queues, scheduler::Seconds(limits_.share_half_life_s));
  renew_guarantees();
  view_.prices = limits_.prices;
}

std::vector<cluster::Effect> ClusterCore::take(const cluster::Event& event, double now_s) {
  advance(now_s);
  std::visit(Overloaded{[this](const cluster::NodeJoined& e) { on_node_joined(e); },
                        [this](const cluster::NodeLost& e) { on_node_lost(e); },
                        [this](const cluster::NodeDraining& e) { on_node_draining(e); },
                        [this](const cluster::NodeVacated& e) { on_node_vacated(e); },
                        [this](const cluster::NodeStays& e) { on_node_stays(e); },
                        [this](const cluster::JobAdmitted& e) { on_job_admitted(e); },
                        [this](const cluster::FromJob& e) { on_job_message(e); },
                        [this](const protocol::DeviceSuspected& e) { on_device_suspected(e); },
                        [this](const cluster::DeviceCleared& e) { on_device_cleared(e); },
                        [this](const cluster::ClaimMade& e) { on_claim_made(e); },
                        [this](const cluster::ClaimResized& e) { on_claim_resized(e); },
                        [this](const cluster::ClaimEnded& e) { on_claim_ended(e); },
                        [this](const cluster::UsageRestored& e) { on_usage_restored(e); }},
             event);
  return std::exchange(effects_, {});
}

std::vector<cluster::Effect> ClusterCore::decide(double now_s) {
  advance(now_s);
  share_out();
  pool_.clear_until(now_s_);
  empty_vacated_nodes();
  end_claims();
  renew_guarantees();
  renew_price_limits();
  renew_expected_sync();
  serve_claims();
  schedule();
  send_changed_allocations();
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
  if (!pool_.is_live(event.node)) forgive(event.node);
  pool_.join(event.node, event.devices, event.place);
  for (const auto& [claim, devices] : claims_) give_back_returned(claim);
  // The pool of a restarted head is empty, so a device on which a process of a job still runs looks
  // free here. The job gets it back before a decision can give it to another job. `moved` stays
  // false, because the job continues on the devices that it had, and no pause is to be expected.
  for (const auto& [id, device] : event.kept)
    if (Job* job = find(id); job != nullptr && pool_.adopt(id, device)) {
      mark_changed(*job);
    }
}

void ClusterCore::on_node_lost(const cluster::NodeLost& event) {
  lose(event.node, false);
  forget_emptied(event.node);
}

// A repeated event only moves the time: a node that was emptied stays so.
void ClusterCore::on_node_vacated(const cluster::NodeVacated& event) {
  vacated_[event.node].leave_s = event.leave_s;
  pool_.vacate(event.node);
}

// The daemon of the node goes away. If it comes back, the node has to be emptied again, and until
// then NodeStays must not bring its devices back.
void ClusterCore::forget_emptied(const std::string& node) {
  if (const auto at = vacated_.find(node); at != vacated_.end()) at->second.is_empty = false;
}

void ClusterCore::on_node_stays(const cluster::NodeStays& event) {
  const auto at = vacated_.find(event.node);
  if (at == vacated_.end()) {
    ++ignored_events_;
    return;
  }
  pool_.stay(event.node, pool_.is_live(event.node) || at->second.is_empty);
  vacated_.erase(at);
  for (const auto& [claim, devices] : claims_) give_back_returned(claim);
}

void ClusterCore::empty_vacated_nodes() {
  for (auto& [node, vacated] : vacated_) {
    if (vacated.leave_s > now_s_ || !pool_.is_live(node)) continue;
    vacated.is_empty = true;
    lose(node, true);
  }
}

double ClusterCore::next_leave_s() const {
  double next_s = scheduler::kNever.count();
  for (const auto& [node, vacated] : vacated_)
    if (vacated.leave_s > now_s_) next_s = std::min(next_s, vacated.leave_s);
  return next_s;
}

void ClusterCore::on_node_draining(const cluster::NodeDraining& event) {
  lose(event.node, true);
  forget_emptied(event.node);
}

void ClusterCore::lose(const std::string& node, bool urgent) {
  if (!pool_.is_live(node)) ++ignored_events_;
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
  Job& job = jobs_[next_submit_number_++];
  job.admitted = event;
  if (!event.submit_s) job.admitted.submit_s = now_s_;
  take_slot(job);
}

void ClusterCore::on_job_message(const cluster::FromJob& event) {
  Job* job = find(event.job);
  if (job == nullptr) {
    ++ignored_events_;
    return;
  }
  std::visit(Overloaded{[&](const protocol::Demand& m) { on_demand(*job, m); },
                        [&](const protocol::JobRefusals& m) { on_refusals(*job, m); },
                        [&](const protocol::BoundToType& m) { on_bound_to_type(*job, m); },
                        [&](const protocol::DeviceReleased& m) { on_device_released(*job, m); },
                        [&](const protocol::DeviceFailed& m) { on_device_failed(*job, m); },
                        [&](const protocol::DevicesWork& m) { on_devices_work(*job, m); },
                        [&](const protocol::JobEnded& m) { on_job_ended(*job, m); }},
             event.message);
}

void ClusterCore::on_demand(Job& job, const protocol::Demand& demand) {
  if (const Status possible = check(job, demand); !possible.ok()) {
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
  if (demand.progress) refresh_progress(job, view_.jobs[job.slot]);
}

void ClusterCore::on_refusals(Job& job, const protocol::JobRefusals& message) {
  job.refusals = message.refusals;
  // The proposals that are known now were received before these refusals, and may ask for devices
  // that are refused.
  if (job.demand) job.demand->proposals.clear();
  touch(job);
}

void ClusterCore::on_bound_to_type(Job& job, const protocol::BoundToType& message) {
  job.admitted.resources.device_types = {message.type};
  touch(job);
}

// Error (refused): the demand can never be met here.
Status ClusterCore::check(const Job& job, const protocol::Demand& demand) const {
  const bool judged_before = job.admitted.restored && !job.demand;
  // Before the first device has joined, nothing is known about the devices: the node of a head may
  // have none. A restored job was judged by an earlier head, and its nodes may not have returned
  // yet.
  if (!pool_.knows_devices() || judged_before) return {};
  ES_RETURN_IF_ERROR(check_queue(job.admitted, demand.exact, limits_.queues));
  if (demand.exact) return check_exact(*demand.exact, pool_.existing_devices());
  // The minimum is judged once. A job whose devices were lost later waits for their return.
  const bool was_elastic = job.demand && !job.demand->exact;
  if (was_elastic) return {};
  Status possible = check_minimum(job.admitted, pool_.existing_devices());
  if (possible.ok()) return {};
  DeviceSet known;  // nodes that are away may return
  for (const DevicePool::NodeView& node : pool_.nodes())
    for (const DevicePool::DeviceView& device : node.devices) known.add(device.id.type, 1);
  return check_minimum(job.admitted, known).ok() ? Status() : possible;
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

void ClusterCore::on_job_ended(Job& job, const protocol::JobEnded&) {
  const auto number = submit_numbers_.find(job.admitted.job);
  charge(job);
  note_sync(job);
  bring_back(faults_.ended(job.admitted.job));
  // The job sends JobEnded after its processes have ended, so nothing runs on these devices any
  // more. Lost ones become free when their node returns.
  pool_.release_all(job.admitted.job);
  release_slot(job);
  price_limits_s_.erase(number->second);
  measured_by_s_.erase(number->second);
  jobs_.erase(number->second);
  submit_numbers_.erase(number);
}

void ClusterCore::on_device_suspected(const protocol::DeviceSuspected& event) {
  pool_.suspect(event.device, event.reason);
}

ClusterCore::Job* ClusterCore::find(const JobId& job) {
  const auto at = submit_numbers_.find(job);
  return at == submit_numbers_.end() ? nullptr : &jobs_.at(at->second);
}

void ClusterCore::take_back(Job& job, const DeviceSet& devices) {
  job.moved = true;
  mark_changed(job);
  for (const DeviceCount& c : devices.counts) pool_.retire(job.admitted.job, c.type, c.count);
  // Without `urgent` the job would keep its last devices until it is given others.
  if (pool_.held(job.admitted.job).empty()) job.urgent = true;
}

void ClusterCore::give(Job& job, const DeviceSet& devices) {
  DevicePool::Wish wish = wish_of(job);
  wish.room = max_devices(job.admitted);
  wish.room -= std::min(wish.room, pool_.held_devices(job.admitted.job).total() + devices.total());
  const std::set<DeviceId> before = wish.cut ? pool_.held(job.admitted.job) : std::set<DeviceId>();
  std::uint32_t given = 0;
  for (const DeviceCount& c : devices.counts)
    given += pool_.grant(job.admitted.job, c.type, c.count, wish);
  if (given < devices.total() && !may_have_part(job)) {
    take_again(job, before);
    given = 0;
  }
  if (given == 0) return;
  job.moved = true;
  mark_changed(job);
}

void ClusterCore::schedule() {
  refresh_view();
  scheduler::Decisions decisions = policy_->decide(view_);
  // A policy that breaks a rule of policy.h is an error of the program. It is found before any
  // device changes its owner.
  const Status status = check_decisions(view_, decisions);
  ES_CHECK_MSG(status.ok(), status.error().message);
  decide_again_s_ =
      std::min({decisions.again_at.count(), next_share_s(), next_claim_s(), next_leave_s(),
                next_price_limit_s(), next_measured_s(), next_pause_end_s()});
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
        {job.admitted.job, protocol::Allocation{.sequence = ++job.sequence,
                                                .releases_seen = job.releases_seen,
                                                .devices = {held.begin(), held.end()},
                                                .urgent = std::exchange(job.urgent, false),
                                                .prices_per_hour = prices_of(held)}});
    // Until the job reports again, the policy works with a predicted speed. Without it, a policy
    // would take the speed of the old devices for that of the new ones.
    if (job.moved) expect_change(job);
    // The sequence has grown, so the proposals of the last demand are void, and the job is not
    // settled until its next demand names this Allocation.
    job.changed = job.moved = false;
    touch(job);
  }
}

void ClusterCore::mark_changed(Job& job) {
  if (!std::exchange(job.changed, true)) changed_.push_back(submit_numbers_.at(job.admitted.job));
  touch(job);
}

void ClusterCore::check_invariants() const {
  pool_.check_invariants();
  std::set<JobId> owners;
  for (const auto& [id, number] : submit_numbers_) owners.insert(id);
  for (const auto& [name, claim] : claims_) owners.insert(claim_owner(name));
  for (const JobId& owner : pool_.owners()) ES_CHECK_MSG(owners.contains(owner), owner);
  ES_CHECK(jobs_.size() == submit_numbers_.size());
  for (const auto& [number, job] : jobs_) {
    ES_CHECK(submit_numbers_.at(job.admitted.job) == number);
    ES_CHECK(!job.changed);
  }
  ES_CHECK(effects_.empty());
}

}  // namespace es::actors
