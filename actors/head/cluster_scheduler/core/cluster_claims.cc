// ClusterCore: claims. A claim takes devices and keeps them until it ends: free devices at once,
// others as soon as training jobs have left them at a step boundary. A returned device goes to
// claims before it goes to jobs; claims are served in the order of their names.
//
// Devices are called back from jobs of the lowest priority first and, among these, from the last
// submitted one. The first pass takes only devices beyond the minimum of a job. The second pass
// suspends whole jobs. The third pass takes devices of pinned jobs. A job that may not be suspended
// gives only devices beyond its minimum, and a pinned one none.
//
// A reservation is a claim with a time. Before its begin it only counts for the limits; at its end
// it is forgotten. A reservation for a queue takes no devices: it raises the guarantee of the
// queue, and the policy finds the devices.
#include <algorithm>
#include <utility>

#include "actors/head/cluster_scheduler/core/cluster_core.h"
#include "actors/head/cluster_scheduler/core/job_bounds.h"

namespace es::actors {

JobId claim_owner(const std::string& claim) {
  return "claim:" + claim;
}

Status ClusterCore::check_claim(const cluster::ClaimMade& claim) const {
  if (claims_.contains(claim.name))
    return refused("claim \"" + claim.name + "\": there is a claim of this name already");
  if (claim.queue.empty()) return check_count(claim);
  const std::string text = "reservation \"" + claim.name + "\": queue = \"" + claim.queue + "\": ";
  const scheduler::Queue* queue = scheduler::find_queue(limits_.queues, claim.queue);
  if (queue == nullptr)
    return usage_error(text + "there is no such queue; " +
                       (limits_.queues.empty()
                            ? "the head has none (easyscaled --queues, --quota)"
                            : "allowed: " + scheduler::leaves_text(limits_.queues)));
  if (!scheduler::is_leaf(limits_.queues, claim.queue))
    return usage_error(
        text + "it has queues below it; allowed: " + scheduler::leaves_text(limits_.queues));
  return check_count(claim);
}

// A smaller number is always accepted: it is within every quota, and the devices were there before.
Status ClusterCore::check_claim(const cluster::ClaimResized& claim) const {
  ES_RETURN_IF_ERROR(check_claim_end(claim.name));
  Claim wanted = claims_.at(claim.name);
  if (claim.count <= wanted.count) return {};
  wanted.count = claim.count;
  return check_count(wanted);
}

// The most devices of its type that other claims have at one moment of its time. `for_queues`: only
// those for queues.
std::uint32_t ClusterCore::most_beside(const Claim& claim, bool for_queues) const {
  const auto counts = [&](const Claim& other) {
    return other.type == claim.type && other.name != claim.name &&
           (!for_queues || !other.queue.empty());
  };
  const auto beside_at = [&](double time_s) {
    std::uint32_t claimed = 0;
    for (const auto& [name, other] : claims_)
      if (counts(other) && other.begin_s <= time_s && time_s < other.end_s) claimed += other.count;
    return claimed;
  };
  // The sum is largest at the begin of one of them.
  std::uint32_t most = beside_at(claim.begin_s);
  for (const auto& [name, other] : claims_)
    if (counts(other) && other.begin_s > claim.begin_s && other.begin_s < claim.end_s)
      most = std::max(most, beside_at(other.begin_s));
  return most;
}

// Checks a claim of this size together with all others.
Status ClusterCore::check_count(const Claim& claim) const {
  const std::uint32_t claimed = most_beside(claim, false);
  const std::uint32_t exist = pool_.existing_devices().count_of(claim.type);
  const std::string text = "claim \"" + claim.name + "\": " + std::to_string(claim.count) + " of " +
                           claim.type.name + ": ";
  // Other claims can have more devices than exist, because the devices of a lost node do not count
  // as existing. The minimum keeps the unsigned difference from becoming negative.
  if (claim.count > exist - std::min(exist, claimed))
    return refused(text + "the cluster has " + std::to_string(exist) +
                   (exist > 0 ? ", and other claims have " + std::to_string(claimed)
                              : "; its devices are " + pool_.existing_devices().text()));
  if (!claim.queue.empty()) {
    std::uint64_t guaranteed = 0;
    for (const scheduler::Queue& queue : limits_.queues)
      if (queue.parent.empty()) guaranteed += queue.guarantee.count_of(claim.type);
    const std::uint32_t reserved = most_beside(claim, true);
    if (claim.count + guaranteed + reserved <= exist) return {};
    return refused(text + "the cluster has " + std::to_string(exist) + ", queues are guaranteed " +
                   std::to_string(guaranteed) + ", and other reservations for queues have " +
                   std::to_string(reserved));
  }
  if (!limits_.claims) return {};
  const std::uint32_t limit = limits_.claims->count_of(claim.type);
  if (claim.count <= limit - std::min(limit, claimed)) return {};
  return refused(text + "the quota of claims is " + std::to_string(limit) +
                 ", and other claims have " + std::to_string(claimed));
}

Status ClusterCore::check_claim_end(const std::string& name) const {
  if (claims_.contains(name)) return {};
  return not_found("claim \"" + name + "\": there is no such claim");
}

void ClusterCore::on_claim_made(const cluster::ClaimMade& event) {
  if (!claims_.try_emplace(event.name, event).second) ++ignored_events_;
}

// The last devices by node and index are given back.
void ClusterCore::on_claim_resized(const cluster::ClaimResized& event) {
  const auto at = claims_.find(event.name);
  if (at == claims_.end()) {
    ++ignored_events_;
    return;
  }
  at->second.count = event.count;
  const JobId owner = claim_owner(event.name);
  // EasyScale runs no process on the devices of a claim, so they are free as soon as the claim
  // gives them up. The id is copied, because release() removes the element that the reference
  // names.
  while (pool_.held(owner).size() > event.count)
    pool_.release(owner, DeviceId(*pool_.held(owner).rbegin()));
}

void ClusterCore::on_claim_ended(const cluster::ClaimEnded& event) {
  if (claims_.erase(event.name) == 0) ++ignored_events_;
  pool_.release_all(claim_owner(event.name));
}

std::vector<ClusterCore::ClaimView> ClusterCore::claims() const {
  std::vector<ClaimView> claims;
  for (const auto& [name, claim] : claims_) {
    const std::uint32_t missing = missing_to(claim);
    const auto has = static_cast<std::uint32_t>(pool_.held(claim_owner(name)).size());
    claims.push_back({.name = name,
                      .type = claim.type,
                      .count = claim.count,
                      .devices = std::min(has, claim.count),
                      .queue = claim.queue,
                      .begun = claim.begin_s <= now_s_});
    if (missing > 0) claims.back().waits = leaving(claim.type);
  }
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

// Whether its time has begun, and it takes devices from jobs instead of guaranteeing them.
bool ClusterCore::takes_devices(const Claim& claim) const {
  return claim.queue.empty() && claim.begin_s <= now_s_;
}

std::uint32_t ClusterCore::missing_to(const Claim& claim) const {
  if (!takes_devices(claim)) return 0;
  const std::size_t held = pool_.held(claim_owner(claim.name)).size();
  return claim.count - static_cast<std::uint32_t>(std::min<std::size_t>(claim.count, held));
}

void ClusterCore::end_claims() {
  for (auto at = claims_.begin(); at != claims_.end();) {
    if (at->second.end_s > now_s_) {
      ++at;
      continue;
    }
    pool_.release_all(claim_owner(at->first));
    ended_claims_.push_back(at->first);
    at = claims_.erase(at);
  }
}

std::vector<std::string> ClusterCore::take_ended_claims() {
  return std::exchange(ended_claims_, {});
}

// The time of the next begin or end of a reservation.
double ClusterCore::next_claim_s() const {
  double next_s = scheduler::kNever.count();
  for (const auto& [name, claim] : claims_)
    for (const double at_s : {claim.begin_s, claim.end_s})
      if (at_s > now_s_) next_s = std::min(next_s, at_s);
  return next_s;
}

// Writes the queues of the view: those of the configuration with what is reserved for them now.
void ClusterCore::renew_guarantees() {
  std::map<std::string, std::uint32_t> now;
  for (const auto& [name, claim] : claims_)
    // An earlier head may have had other queues.
    if (claim.begin_s <= now_s_ && scheduler::find_queue(limits_.queues, claim.queue) != nullptr)
      now[name] = claim.count;
  if (guaranteed_ == now) return;
  view_.queues = limits_.queues;
  for (const auto& [name, count] : now) {
    const Claim& claim = claims_.at(name);
    scheduler::add_guarantee(view_.queues, claim.queue, claim.type, count);
  }
  guaranteed_ = std::move(now);
  if (!shares_) return;
  // The weights order the queues by what they have used, and divide nothing besides. Only a queue
  // with a sibling of a lower tier keeps its weight, because it takes devices before that one.
  for (scheduler::Queue& queue : view_.queues) {
    const bool precedes = std::any_of(
        limits_.queues.begin(), limits_.queues.end(), [&](const scheduler::Queue& other) {
          return other.parent == queue.parent && other.tier < queue.tier;
        });
    if (!precedes) queue.weight = 0;
  }
}

void ClusterCore::serve_claims() {
  // Devices that jobs are already leaving count as found. Otherwise every decision would call back
  // more devices until the first ones have arrived.
  std::map<DeviceType, std::uint32_t> missing;
  for (const auto& [name, claim] : claims_) {
    const std::uint32_t wanted = missing_to(claim);
    const std::uint32_t now = std::min(wanted, pool_.free_devices().count_of(claim.type));
    if (now > 0) pool_.grant(claim_owner(name), claim.type, now, {.on_spot = false});
    if (wanted > now) missing[claim.type] += wanted - now;
  }
  for (const auto& [type, count] : missing) {
    const std::uint32_t returning = pool_.returning_devices().count_of(type);
    if (count > returning) call_back(type, count - returning);
  }
}

void ClusterCore::call_back(const DeviceType& type, std::uint32_t count) {
  std::vector<Job*> order;
  for (auto& [number, job] : jobs_)
    if (pool_.held_devices(job.admitted.job).count_of(type) > 0) order.push_back(&job);
  // jobs_ is in submit order. The sort is stable, so among jobs of one priority the last submitted
  // one stays first.
  std::reverse(order.begin(), order.end());
  std::stable_sort(order.begin(), order.end(), [](const Job* a, const Job* b) {
    return a->admitted.resources.priority < b->admitted.resources.priority;
  });
  enum Round { kExtras, kElastic, kPinned };
  for (const Round round : {kExtras, kElastic, kPinned}) {
    for (Job* job : order) {
      const DeviceSet held = pool_.held_devices(job->admitted.job);
      const bool pinned = job->demand && job->demand->exact;
      if (count == 0 || (pinned && round != kPinned)) continue;
      if (!job->admitted.resources.suspendable && round != kExtras) continue;
      const std::uint32_t least =
          std::min(job->admitted.resources.min_devices, max_devices(job->admitted));
      std::uint32_t most = std::min(count, held.count_of(type));
      // In the first pass a job keeps its minimum. The inner minimum prevents a negative difference
      // for a job that already has fewer devices.
      if (round == kExtras) most = std::min(most, held.total() - std::min(held.total(), least));
      if (most == 0) continue;
      count -= most;
      // A job with less than its minimum cannot run, so it gives everything back.
      DeviceSet devices = held;
      if (pinned || held.total() - most >= least) {
        devices = {};
        devices.add(type, most);
      }
      take_back(*job, devices);
    }
  }
}

// The returning devices that claims wait for.
DeviceSet ClusterCore::reserved_returning() const {
  DeviceSet reserved;
  for (const auto& [name, claim] : claims_)
    if (const std::uint32_t missing = missing_to(claim); missing > 0)
      reserved.add(claim.type, missing);
  return reserved;
}

// Devices of a lost node that has returned. No process of the claim is known to run there, so they
// are free.
void ClusterCore::give_back_returned(const std::string& claim) {
  const JobId owner = claim_owner(claim);
  // A copy, because release() changes the set of the pool.
  const std::set<DeviceId> owned = pool_.owned(owner);
  for (const DeviceId& device : owned)
    if (pool_.is_live(device.node) && !pool_.held(owner).contains(device))
      pool_.release(owner, device);
}

}  // namespace es::actors
