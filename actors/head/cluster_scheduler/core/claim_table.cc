#include "actors/head/cluster_scheduler/core/claim_table.h"

#include <algorithm>

namespace es::actors {
namespace {

// Whether its time has begun, and it takes devices from jobs instead of guaranteeing them.
bool takes_devices(const cluster::ClaimMade& claim, double now_s) {
  return claim.queue.empty() && claim.begin_s <= now_s;
}

}  // namespace

JobId claim_owner(const std::string& claim) {
  return "claim:" + claim;
}

Status ClaimTable::check(const cluster::ClaimMade& claim) const {
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
Status ClaimTable::check(const cluster::ClaimResized& claim) const {
  ES_RETURN_IF_ERROR(check_end(claim.name));
  Claim wanted = claims_.at(claim.name);
  if (claim.count <= wanted.count) return {};
  wanted.count = claim.count;
  return check_count(wanted);
}

Status ClaimTable::check_end(const std::string& name) const {
  if (claims_.contains(name)) return {};
  return not_found("claim \"" + name + "\": there is no such claim");
}

// The most devices of its type that other claims have at one moment of its time. `for_queues`: only
// those for queues.
std::uint32_t ClaimTable::most_beside(const Claim& claim, bool for_queues) const {
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
Status ClaimTable::check_count(const Claim& claim) const {
  const std::uint32_t claimed = most_beside(claim, false);
  const std::uint32_t exist = pool_.existing_devices().count_of(claim.type);
  const std::string text = "claim \"" + claim.name + "\": " + std::to_string(claim.count) + " of " +
                           claim.type.name + ": ";
  // Other claims can have more devices than exist, because the devices of a lost node do not count
  // as existing. The minimum keeps the unsigned difference from becoming negative.
  if (!limits_.may_grow && claim.count > exist - std::min(exist, claimed))
    return refused(text + "the cluster has " + std::to_string(exist) +
                   (exist > 0 ? ", and other claims have " + std::to_string(claimed)
                              : "; its devices are " + pool_.existing_devices().text()));
  if (!claim.queue.empty()) return check_guarantees(claim, exist, text);
  if (!limits_.claims) return {};
  const std::uint32_t limit = limits_.claims->count_of(claim.type);
  if (claim.count <= limit - std::min(limit, claimed)) return {};
  return refused(text + "the quota of claims is " + std::to_string(limit) +
                 ", and other claims have " + std::to_string(claimed));
}

// Checks a reservation for a queue together with what is guaranteed to queues.
Status ClaimTable::check_guarantees(const Claim& claim, std::uint32_t exist,
                                    const std::string& text) const {
  std::uint64_t guaranteed = 0;
  for (const scheduler::Queue& queue : limits_.queues)
    if (queue.parent.empty()) guaranteed += queue.guarantee.count_of(claim.type);
  const std::uint32_t reserved = most_beside(claim, true);
  if (limits_.may_grow || claim.count + guaranteed + reserved <= exist) return {};
  return refused(text + "the cluster has " + std::to_string(exist) + ", queues are guaranteed " +
                 std::to_string(guaranteed) + ", and other reservations for queues have " +
                 std::to_string(reserved));
}

bool ClaimTable::make(const cluster::ClaimMade& event) {
  return claims_.try_emplace(event.name, event).second;
}

bool ClaimTable::resize(const cluster::ClaimResized& event) {
  const auto at = claims_.find(event.name);
  if (at == claims_.end()) return false;
  at->second.count = event.count;
  const JobId owner = claim_owner(event.name);
  // EasyScale runs no process on the devices of a claim, so they are free as soon as the claim
  // gives them up. The id is copied, because release() removes the element that the reference
  // names.
  while (pool_.held(owner).size() > event.count)
    pool_.release(owner, DeviceId(*pool_.held(owner).rbegin()));
  return true;
}

bool ClaimTable::end(const cluster::ClaimEnded& event) {
  pool_.release_all(claim_owner(event.name));
  return claims_.erase(event.name) > 0;
}

void ClaimTable::give_back_returned() {
  for (const auto& [name, claim] : claims_) {
    const JobId owner = claim_owner(name);
    // A copy, because release() changes the set of the pool.
    const std::set<DeviceId> owned = pool_.owned(owner);
    for (const DeviceId& device : owned)
      if (pool_.is_live(device.node) && !pool_.held(owner).contains(device))
        pool_.release(owner, device);
  }
}

void ClaimTable::end_until(double now_s) {
  for (auto at = claims_.begin(); at != claims_.end();) {
    if (at->second.end_s > now_s) {
      ++at;
      continue;
    }
    pool_.release_all(claim_owner(at->first));
    ended_.push_back(at->first);
    at = claims_.erase(at);
  }
}

std::map<DeviceType, std::uint32_t> ClaimTable::serve(double now_s) {
  std::map<DeviceType, std::uint32_t> lacking;
  for (const auto& [name, claim] : claims_) {
    const std::uint32_t wanted = missing_to(claim, now_s);
    const std::uint32_t now = std::min(wanted, pool_.free_devices().count_of(claim.type));
    if (now > 0) pool_.grant(claim_owner(name), claim.type, now, {.on_spot = false});
    if (wanted > now) lacking[claim.type] += wanted - now;
  }
  return lacking;
}

std::optional<std::vector<scheduler::Queue>> ClaimTable::renew_guarantees(double now_s) {
  std::map<std::string, std::uint32_t> now;
  for (const auto& [name, claim] : claims_)
    // An earlier head may have had other queues.
    if (claim.begin_s <= now_s && scheduler::find_queue(limits_.queues, claim.queue) != nullptr)
      now[name] = claim.count;
  if (guaranteed_ == now) return {};
  std::vector<scheduler::Queue> queues = limits_.queues;
  for (const auto& [name, count] : now) {
    const Claim& claim = claims_.at(name);
    scheduler::add_guarantee(queues, claim.queue, claim.type, count);
  }
  guaranteed_ = std::move(now);
  return queues;
}

std::vector<ClaimTable::View> ClaimTable::views(double now_s) const {
  std::vector<View> views;
  for (const auto& [name, claim] : claims_) {
    const auto has = static_cast<std::uint32_t>(pool_.held(claim_owner(name)).size());
    views.push_back({.name = name,
                     .type = claim.type,
                     .count = claim.count,
                     .devices = std::min(has, claim.count),
                     .queue = claim.queue,
                     .begun = claim.begin_s <= now_s,
                     .missing = missing_to(claim, now_s)});
  }
  return views;
}

std::uint32_t ClaimTable::missing_to(const Claim& claim, double now_s) const {
  if (!takes_devices(claim, now_s)) return 0;
  const std::size_t held = pool_.held(claim_owner(claim.name)).size();
  return claim.count - static_cast<std::uint32_t>(std::min<std::size_t>(claim.count, held));
}

DeviceSet ClaimTable::taken(double now_s) const {
  DeviceSet taken;
  for (const auto& [name, claim] : claims_)
    if (takes_devices(claim, now_s)) taken.add(claim.type, claim.count);
  return taken;
}

DeviceSet ClaimTable::missing(double now_s) const {
  DeviceSet missing;
  for (const auto& [name, claim] : claims_)
    if (const std::uint32_t count = missing_to(claim, now_s); count > 0)
      missing.add(claim.type, count);
  return missing;
}

double ClaimTable::next_s(double now_s) const {
  double next_s = scheduler::kNever.count();
  for (const auto& [name, claim] : claims_)
    for (const double at_s : {claim.begin_s, claim.end_s})
      if (at_s > now_s) next_s = std::min(next_s, at_s);
  return next_s;
}

std::vector<JobId> ClaimTable::owners() const {
  std::vector<JobId> owners;
  for (const auto& [name, claim] : claims_) owners.push_back(claim_owner(name));
  return owners;
}

}  // namespace es::actors
