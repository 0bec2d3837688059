#include "actors/head/cluster_scheduler/shell/node_list.h"

#include "actors/base/access/core/requests.h"

namespace es::actors {
namespace {

void put_types(wire::QueueInfo::Builder b, const scheduler::QueueState& state,
               const scheduler::Queue* given) {
  auto types = b.initTypes(state.types.size());
  for (std::size_t t = 0; t < state.types.size(); ++t) {
    const scheduler::QueueState::OfType& of = state.types[t];
    types[t].setType(of.type.name);
    types[t].setGuarantee(of.guarantee);
    types[t].setLimited(of.limit.has_value());
    types[t].setLimit(of.limit.value_or(0));
    types[t].setUsed(of.used);
    types[t].setEntitled(of.entitled);
    if (given != nullptr) types[t].setReserved(of.guarantee - given->guarantee.count_of(of.type));
  }
}

}  // namespace

void NodeList::put(wire::NodeList::Builder b, const access::Identity* client) const {
  b.setUnixMs(from_.clock.unix_ms());
  put_queues(b, client);
  put_claims(b, client);
  put_nodes(b, client);
  const DecisionTimes& times = from_.decisions.times();
  b.setDecisionSeconds(times.seconds);
  auto counts = b.initDecisionCounts(static_cast<unsigned>(times.counts.size()));
  for (unsigned i = 0; i < counts.size(); ++i) counts.set(i, times.counts[i]);
}

// A client with a tenant sees the queues that its jobs may be in, and those above them.
void NodeList::put_queues(wire::NodeList::Builder b, const access::Identity* client) const {
  std::vector<scheduler::QueueState> shown = from_.decisions.core().queues();
  std::erase_if(shown, [&](const scheduler::QueueState& state) {
    return client != nullptr && !client->tenant.empty() &&
           !scheduler::serves_tenant(from_.queues, state.queue, client->tenant);
  });
  auto list = b.initQueues(shown.size());
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const scheduler::Queue& queue = shown[i].queue;
    list[i].setName(queue.name);
    list[i].setParent(queue.parent);
    // With fair share the view of the policy has no weights.
    const scheduler::Queue* given = scheduler::find_queue(from_.queues, queue.name);
    list[i].setWeight(given == nullptr ? queue.weight : given->weight);
    list[i].setTier(queue.tier);
    list[i].setRunning(shown[i].running);
    list[i].setWaiting(shown[i].waiting);
    if (const auto share = from_.decisions.core().share_of(queue.name)) {
      list[i].setShares(true);
      list[i].setUsage(share->device_seconds);
      list[i].setLevel(share->level);
    }
    auto tenants = list[i].initTenants(queue.tenants.size());
    for (std::size_t t = 0; t < queue.tenants.size(); ++t) tenants.set(t, queue.tenants[t]);
    put_types(list[i], shown[i], given);
  }
}

void NodeList::put_claims(wire::NodeList::Builder b, const access::Identity* client) const {
  const auto claims = from_.decisions.core().claims();
  auto list = b.initClaims(static_cast<unsigned>(claims.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setName(claims[i].name);
    list[i].setDeviceType(claims[i].type.name);
    list[i].setCount(claims[i].count);
    list[i].setDevices(claims[i].devices);
    list[i].setQueue(claims[i].queue);
    list[i].setBegun(claims[i].begun);
    const Claims::Time time = from_.claims.time_of(claims[i].name);
    list[i].setFromUnixMs(time.from_unix_ms);
    list[i].setUntilUnixMs(time.until_unix_ms);
    auto waits = list[i].initWaits(static_cast<unsigned>(claims[i].waits.size()));
    for (unsigned w = 0; w < waits.size(); ++w) {
      const auto& [job, devices] = claims[i].waits[w];
      const bool known = from_.jobs.shows(client, job);
      waits[w].setJob(known ? job : access::kOtherTenant);
      waits[w].setDevices(devices);
      if (!known) continue;
      if (const std::string reason = from_.jobs.why_devices_are_kept(job); !reason.empty())
        waits[w].setReason(reason);
    }
  }
}

void NodeList::put_nodes(wire::NodeList::Builder b, const access::Identity* client) const {
  const auto nodes = from_.decisions.core().nodes();
  auto list = b.initNodes(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) put_node(list[i], nodes[i], client);
}

void NodeList::put_node(wire::NodeInfo::Builder b, const DevicePool::NodeView& node,
                        const access::Identity* client) const {
  b.setName(node.name);
  const bool present = from_.book.is_present(node);
  b.setAlive(present);
  b.setDraining(present && !node.alive);
  b.setSpot(node.place.spot);
  b.setGoneUnixMs(from_.book.gone_unix_ms(node.name).value_or(0));
  b.setRack(node.place.rack);
  b.setIslandDevices(node.place.island_devices);
  if (const DirectoryTrial* tried = from_.nodes.trial_of(node.name)) {
    b.setCheckpoints(tried->shared ? "shared" : "own");
    b.setCheckpointProblem(tried->problem);
  }
  b.setClockAheadMs(from_.nodes.clock_ahead_ms(node.name).value_or(0));
  auto devices = b.initDevices(node.devices.size());
  for (std::size_t d = 0; d < node.devices.size(); ++d) {
    devices[d].setType(node.devices[d].id.type.name);
    devices[d].setIndex(node.devices[d].id.index);
    const JobId& owner = node.devices[d].owner;
    devices[d].setJob(from_.jobs.shows(client, owner) ? owner : access::kOtherTenant);
    devices[d].setSuspect(node.devices[d].suspect);
    if (const auto until_s = node.devices[d].suspect_until_s)
      devices[d].setSuspectUntilUnixMs(from_.clock.date_of(*until_s));
  }
  const auto cut = from_.decisions.core().cut_from(node.name);
  auto others = b.initCutFrom(static_cast<unsigned>(cut.size()));
  for (unsigned o = 0; o < others.size(); ++o) others.set(o, cut[o].first);
}

}  // namespace es::actors
