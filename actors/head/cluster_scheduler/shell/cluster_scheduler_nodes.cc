// ClusterScheduler: nodes that come, drain and go.
#include <caf/all.hpp>

#include <algorithm>
#include <cmath>

#include "actors/base/access/core/requests.h"
#include "actors/base/gateway/core/peer_id.h"
#include "actors/base/log/log.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "actors/head/cluster_scheduler/shell/cluster_scheduler_actor.h"
#include "proto/base/number_text.h"
#include "proto/text_of.h"

namespace es::actors {
namespace {

constexpr double kNoticeSecondsMax = 1e7;
// The part of a notice that is left for jobs to move or to be saved, and its longest time.
constexpr double kLeaveShare = 0.5;
constexpr double kLeaveSecondsMax = 30;

}  // namespace

// Nodes tell their place before they say hello, so the first decision about their devices knows it.
void ClusterSchedulerState::on_node_place(const Inbound& inbound) {
  const auto place =
      Msg<wire::NodePlace>::from_frame(inbound.frame)->decode([](wire::NodePlace::Reader r) {
        return NodePlace{name_of(r.getRack(), "rack"), r.getIslandDevices(), r.getSpot()};
      });
  if (place) node_places_[inbound.from] = *place;
}

void ClusterSchedulerState::on_node_hello(const Inbound& inbound) {
  const auto hello = Msg<wire::NodeHello>::from_frame(inbound.frame);
  std::uint64_t clock_ms = 0;
  auto node = hello->decode([&](wire::NodeHello::Reader r) {
    clock_ms = r.getUnixMs();
    Arrival n{name_of(r.getName(), "name"), {}, {}, {}};
    for (const auto device : r.getDevices())
      n.devices.add({name_of(device.getType(), "device type")}, 1);
    for (const std::uint64_t worker : r.getWorkers()) n.workers.push_back({worker});
    return n;
  });
  std::string reason = node ? "" : node.error().message;
  // The gateway has verified the name of the connection. A node that could use another name could
  // bring devices of that node into the cluster.
  if (node && inbound.from != node_peer(node->name)) reason = "a node must speak in its own name";
  answer<wire::NodeWelcome>(inbound, [&](wire::NodeWelcome::Builder b) {
    b.setAccepted(reason.empty());
    b.setReason(reason);
    b.setCheckpointDirectory(options_.checkpoint_dir.string());
    b.setProbe(options_.probe);
  });
  // Only for a search for errors: a peer could repeat it without end, and the node logs it too.
  if (!reason.empty()) return log::debug("the node is refused: " + reason, {.peer = inbound.from});
  draining_nodes_.erase(inbound.from);  // a node that drains says so again after its hello
  if (clock_ms != 0)
    clocks_ahead_ms_[inbound.from] = static_cast<std::int64_t>(clock_ms - options_.unix_ms());
  // The hello goes to the jobs first: they must know which of their processes are gone before they
  // are given devices.
  for (const JobId& id : live_jobs_) self_->send(jobs_.at(id).actor, inbound);
  node->strays = strays_of(inbound.from, node->workers);
  if (node->strays.empty()) return admit_node(*node);
  log::info("the node waits for the end of worker processes that no job knows: " +
                std::to_string(node->strays.size()),
            {.node = node->name});
  // The node is admitted only after its strays were reaped, because they may still use its devices.
  for (const Incarnation stray : node->strays) {
    const auto kill = Msg<wire::KillWorker>::build(
        {}, [&](wire::KillWorker::Builder b) { b.setIncarnation(stray.value); });
    self_->send(gateway_, Outbound{inbound.from, kill.frame()});
  }
  // The node joins when the last of them was reaped (on_worker_exited). A repeated hello replaces
  // this entry.
  arriving_nodes_[inbound.from] = *std::move(node);
}

std::set<Incarnation> ClusterSchedulerState::strays_of(const PeerId& node,
                                                       const std::vector<Incarnation>& workers) {
  // The jobs have given up everything that ran on a lost node, so all of its processes are strays.
  // Otherwise a process is a stray if an earlier head started it and no job of the journal has it.
  const bool was_lost = std::exchange(node_was_lost_[node], false);
  std::set<Incarnation> strays;
  for (const Incarnation worker : workers)
    if (was_lost || (worker < first_own_incarnation_ && !journaled_workers_.contains(worker)))
      strays.insert(worker);
  return strays;
}

// The workers of the node are handed over, or their jobs are saved; then its daemon ends.
void ClusterSchedulerState::on_drain_node(const Inbound& inbound) {
  const std::string prefix = node_peer("");
  if (!inbound.from.starts_with(prefix)) return;
  const std::string name = inbound.from.substr(prefix.size());
  if (draining_nodes_.insert(inbound.from).second) log::info("the node drains", {.node = name});
  // The decision follows at once, because the time of grace of the node is running.
  take_now(cluster::NodeDraining{name});
  send_inventory();
}

void ClusterSchedulerState::vacate(const std::string& node, std::uint64_t gone_unix_ms) {
  const double left_s =
      gone_unix_ms == 0
          ? 0
          : (static_cast<double>(gone_unix_ms) - static_cast<double>(options_.unix_ms())) / 1e3;
  vacated_[node] = {gone_unix_ms == 0 ? 0 : now_s() + left_s, gone_unix_ms};
  const double leave_s = now_s() + left_s - std::min(kLeaveSecondsMax, kLeaveShare * left_s);
  take(cluster::NodeVacated{node, leave_s});
}

Status ClusterSchedulerState::restore_vacated() {
  const auto nodes = store_->vacated().load_all();
  if (!nodes) return nodes.error();
  for (const store::VacatedNode& node : *nodes) {
    // A node that is gone by now and comes back is a new one.
    if (node.gone_unix_ms != 0 && node.gone_unix_ms <= options_.unix_ms())
      ES_RETURN_IF_ERROR(store_->vacated().erase(node.node));
    else
      vacate(node.node, node.gone_unix_ms);
  }
  return {};
}

// An announced end that has passed concerns an earlier node of this name.
void ClusterSchedulerState::forget_gone(const std::string& node) {
  const auto at = vacated_.find(node);
  if (at == vacated_.end() || at->second.gone_s == 0 || at->second.gone_s > now_s()) return;
  vacated_.erase(at);
  write_when_possible(
      [this, node] { return vacated_.contains(node) ? Status() : store_->vacated().erase(node); });
  perform(core_->take(cluster::NodeStays{node}, now_s()));
}

void ClusterSchedulerState::vacate_node(const Inbound& inbound) {
  struct Asked {
    std::string node;
    double seconds = 0;
    bool cancel = false;
  };
  const auto asked =
      Msg<wire::VacateNode>::from_frame(inbound.frame)->decode([](wire::VacateNode::Reader r) {
        return Asked{name_of(r.getNode(), "node"), r.getSeconds(), r.getCancel()};
      });
  if (!asked) return refuse(inbound, asked.error());
  const std::string& node = asked->node;
  const auto nodes = core_->nodes();
  const bool known =
      std::any_of(nodes.begin(), nodes.end(), [&](const auto& view) { return view.name == node; });
  if (!known && !vacated_.contains(node))
    return refuse(inbound, not_found("node \"" + node + "\": there is no such node"));
  if (!(asked->seconds >= 0 && asked->seconds <= kNoticeSecondsMax))
    return refuse(inbound, usage_error("seconds = " + number_text(asked->seconds) +
                                       ": allowed is 0 to " + number_text(kNoticeSecondsMax)));
  if (asked->cancel && !vacated_.contains(node))
    return refuse(inbound, refused("node \"" + node + "\": its jobs need not leave it"));
  const std::uint64_t gone_unix_ms =
      asked->seconds == 0
          ? 0
          : options_.unix_ms() + static_cast<std::uint64_t>(std::llround(asked->seconds * 1e3));
  const Status saved = not_written(asked->cancel ? store_->vacated().erase(node)
                                                 : store_->vacated().save({node, gone_unix_ms}));
  if (!saved.ok()) return refuse(inbound, saved.error());
  if (asked->cancel) {
    log::info("jobs may use the node again", {.node = node});
    vacated_.erase(node);
    take_now(cluster::NodeStays{node});
  } else {
    log::info(gone_unix_ms == 0 ? std::string("jobs leave the node")
                                : "the node will be gone in " + number_text(asked->seconds) + " s",
              {.node = node});
    vacate(node, gone_unix_ms);
    on_decide(decide_due_s_);
  }
  answer<wire::Done>(inbound, [](auto) {});
  send_inventory();
}

// Whether the daemon of the node runs, also if jobs have to leave it or have left it.
bool ClusterSchedulerState::is_present(const DevicePool::NodeView& node) const {
  const PeerId peer = node_peer(node.name);
  if (node.alive || draining_nodes_.contains(peer)) return true;
  const auto lost = node_was_lost_.find(peer);
  return vacated_.contains(node.name) && lost != node_was_lost_.end() && !lost->second;
}

void ClusterSchedulerState::on_worker_exited(const Inbound& inbound) {
  // The job is informed first. If the process was a stray and the last one, the node joins below.
  forward_to_job(inbound);
  const auto at = arriving_nodes_.find(inbound.from);
  if (at == arriving_nodes_.end()) return;
  const auto exited =
      Msg<wire::WorkerExited>::from_frame(inbound.frame)->decode([](wire::WorkerExited::Reader r) {
        return r.getIncarnation();
      });
  if (!exited || at->second.strays.erase({*exited}) == 0 || !at->second.strays.empty()) return;
  const Arrival node = std::move(at->second);
  arriving_nodes_.erase(at);
  admit_node(node);
}

void ClusterSchedulerState::admit_node(const Arrival& node) {
  awaited_nodes_.erase(node_peer(node.name));
  nodes_held_back_.push_back(node);
  if (awaited_nodes_.empty()) stop_waiting_for_nodes();
}

void ClusterSchedulerState::on_return_timeout() {
  awaited_nodes_.clear();
  stop_waiting_for_nodes();
}

// All nodes enter before one decision is made. After the first node alone, a job with devices on
// another node would seem to hold nothing and would be granted other devices.
void ClusterSchedulerState::stop_waiting_for_nodes() {
  for (const Arrival& node : std::exchange(nodes_held_back_, {})) join_node(node);
  on_decide(decide_due_s_);
  send_inventory();
}

void ClusterSchedulerState::join_node(const Arrival& node) {
  log::info("the node joins with " + node.devices.text(), {.node = node.name});
  forget_gone(node.name);
  cluster::NodeJoined joined{node.name, node.devices};
  if (const auto place = node_places_.find(node_peer(node.name)); place != node_places_.end())
    joined.place = place->second;
  for (const Incarnation worker : node.workers)
    if (const auto at = journaled_workers_.find(worker); at != journaled_workers_.end())
      joined.kept.push_back(at->second);
  // No decision is made here (stop_waiting_for_nodes).
  perform(core_->take(joined, now_s()));
  // A node that was held back may have said meanwhile that it drains.
  if (draining_nodes_.contains(node_peer(node.name)))
    perform(core_->take(cluster::NodeDraining{node.name}, now_s()));
}

void ClusterSchedulerState::on_peer_down(const PeerDown& down) {
  const std::string prefix = node_peer("");
  const bool is_node = down.peer.starts_with(prefix);
  if (is_node) {
    node_places_.erase(down.peer);
    const auto known = node_was_lost_.find(down.peer);
    if (known == node_was_lost_.end()) return;  // it has not found this head yet
    const std::string name = down.peer.substr(prefix.size());
    if (draining_nodes_.contains(down.peer))
      log::info("the node has left", {.node = name});
    else
      log::warning("the node is lost", {.node = name});
    known->second = true;
    directory_trials_.erase(down.peer);
    arriving_nodes_.erase(down.peer);
    draining_nodes_.erase(down.peer);
    std::erase_if(nodes_held_back_,
                  [&](const Arrival& n) { return node_peer(n.name) == down.peer; });
    // The devices are lost first, so that no job starts anything there again.
    take_now(cluster::NodeLost{name});
  }
  // The end of a client concerns every job, also those that are over, because the client may follow
  // any of them. The end of a node concerns live jobs only.
  for (const auto& [number, id] : submit_order_)
    if (!is_node || live_jobs_.contains(id)) self_->send(jobs_.at(id).actor, down);
  if (is_node) send_inventory();
}

Msg<wire::Inventory> ClusterSchedulerState::inventory() {
  const DeviceSet& devices = core_->existing_devices();
  if (inventory_ && inventory_devices_ == devices) return *inventory_;
  std::vector<std::string> present;
  for (const auto& node : core_->nodes())
    // The core treats a draining node as lost, but its daemon still runs and can read saved states.
    if (is_present(node)) present.push_back(node.name);
  inventory_devices_ = devices;
  inventory_ = Msg<wire::Inventory>::build({}, [&](wire::Inventory::Builder b) {
    put(b.initDevices(devices.counts.size()), devices);
    auto nodes = b.initNodes(static_cast<unsigned>(present.size()));
    for (unsigned i = 0; i < nodes.size(); ++i) nodes.set(i, present[i]);
  });
  return *inventory_;
}

void ClusterSchedulerState::send_inventory() {
  inventory_.reset();
  // The next job gets it when it starts.
  if (live_jobs_.empty()) return;
  const auto message = inventory();
  for (const JobId& id : live_jobs_) self_->send(jobs_.at(id).actor, message);
}

// Nodes look for this file to find out whether they see the same disk. If it cannot be written,
// nodes do not find it; the error itself appears when a job is to be saved.
void ClusterSchedulerState::write_probe_file() {
  if (options_.checkpoint_dir.empty() || options_.probe.empty()) return;
  const Status written = write_probe(options_.checkpoint_dir, options_.probe);
  if (!written.ok()) log::warning(written.error().message);
}

void ClusterSchedulerState::on_directory_tried(const Inbound& inbound) {
  const auto tried = Msg<wire::DirectoryTried>::from_frame(inbound.frame)
                         ->decode([](wire::DirectoryTried::Reader r) {
                           return DirectoryTrial{r.getShared(), r.getProblem().cStr()};
                         });
  // node_was_lost_ has an entry for every node that has said hello. Other peers cannot add entries.
  if (tried && node_was_lost_.contains(inbound.from)) directory_trials_[inbound.from] = *tried;
}

void ClusterSchedulerState::on_devices_kept(const JobId& job, const protocol::DevicesKept& kept) {
  if (kept.reason.empty())
    kept_devices_.erase(job);
  else if (live_jobs_.contains(job))
    kept_devices_[job] = kept.reason;
}

void ClusterSchedulerState::fill_claims(const Inbound& inbound, wire::NodeList::Builder b) const {
  const auto claims = core_->claims();
  auto list = b.initClaims(static_cast<unsigned>(claims.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setName(claims[i].name);
    list[i].setDeviceType(claims[i].type.name);
    list[i].setCount(claims[i].count);
    list[i].setDevices(claims[i].devices);
    list[i].setQueue(claims[i].queue);
    list[i].setBegun(claims[i].begun);
    if (const auto time = claim_times_.find(claims[i].name); time != claim_times_.end()) {
      list[i].setFromUnixMs(time->second.first);
      list[i].setUntilUnixMs(time->second.second);
    }
    auto waits = list[i].initWaits(static_cast<unsigned>(claims[i].waits.size()));
    for (unsigned w = 0; w < waits.size(); ++w) {
      const auto& [job, devices] = claims[i].waits[w];
      const bool known = shows(inbound, job);
      waits[w].setJob(known ? job : access::kOtherTenant);
      waits[w].setDevices(devices);
      if (!known) continue;
      if (const auto kept = kept_devices_.find(job); kept != kept_devices_.end())
        waits[w].setReason(kept->second);
    }
  }
}

// A time of the core's clock as a date.
std::uint64_t ClusterSchedulerState::unix_ms_at(double time_s) const {
  return options_.unix_ms() +
         static_cast<std::uint64_t>(std::llround(std::max(0.0, time_s - now_s()) * 1e3));
}

void ClusterSchedulerState::fill_nodes(const Inbound& inbound, wire::NodeList::Builder b) const {
  const auto nodes = core_->nodes();
  auto list = b.initNodes(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const PeerId peer = node_peer(nodes[i].name);
    list[i].setName(nodes[i].name);
    const bool present = is_present(nodes[i]);
    list[i].setAlive(present);
    list[i].setDraining(present && !nodes[i].alive);
    list[i].setSpot(nodes[i].place.spot);
    if (const auto vacated = vacated_.find(nodes[i].name); vacated != vacated_.end())
      list[i].setGoneUnixMs(vacated->second.gone_unix_ms);
    list[i].setRack(nodes[i].place.rack);
    list[i].setIslandDevices(nodes[i].place.island_devices);
    if (const auto tried = directory_trials_.find(peer); tried != directory_trials_.end()) {
      list[i].setCheckpoints(tried->second.shared ? "shared" : "own");
      list[i].setCheckpointProblem(tried->second.problem);
    }
    if (const auto clock = clocks_ahead_ms_.find(peer); clock != clocks_ahead_ms_.end())
      list[i].setClockAheadMs(clock->second);
    auto devices = list[i].initDevices(nodes[i].devices.size());
    for (std::size_t d = 0; d < nodes[i].devices.size(); ++d) {
      devices[d].setType(nodes[i].devices[d].id.type.name);
      devices[d].setIndex(nodes[i].devices[d].id.index);
      const JobId& owner = nodes[i].devices[d].owner;
      devices[d].setJob(shows(inbound, owner) ? owner : access::kOtherTenant);
      devices[d].setSuspect(nodes[i].devices[d].suspect);
      if (const auto until_s = nodes[i].devices[d].suspect_until_s)
        devices[d].setSuspectUntilUnixMs(unix_ms_at(*until_s));
    }
    const auto cut = core_->cut_from(nodes[i].name);
    auto others = list[i].initCutFrom(static_cast<unsigned>(cut.size()));
    for (unsigned o = 0; o < others.size(); ++o) others.set(o, cut[o].first);
  }
}

// A client with a tenant sees the queues that its jobs may be in, and those above them.
void ClusterSchedulerState::fill_queues(const Inbound& inbound, wire::NodeList::Builder b) const {
  const access::Identity* client = client_of(inbound);
  const std::vector<scheduler::Queue>& queues = options_.limits.queues;
  std::vector<scheduler::QueueState> shown = core_->queues();
  std::erase_if(shown, [&](const scheduler::QueueState& state) {
    return client != nullptr && !client->tenant.empty() &&
           !scheduler::serves_tenant(queues, state.queue, client->tenant);
  });
  auto list = b.initQueues(shown.size());
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const scheduler::Queue& queue = shown[i].queue;
    list[i].setName(queue.name);
    list[i].setParent(queue.parent);
    // With fair share the view of the policy has no weights.
    const scheduler::Queue* given = scheduler::find_queue(queues, queue.name);
    list[i].setWeight(given == nullptr ? queue.weight : given->weight);
    list[i].setTier(queue.tier);
    list[i].setRunning(shown[i].running);
    list[i].setWaiting(shown[i].waiting);
    if (const auto share = core_->share_of(queue.name)) {
      list[i].setShares(true);
      list[i].setUsage(share->device_seconds);
      list[i].setLevel(share->level);
    }
    auto tenants = list[i].initTenants(queue.tenants.size());
    for (std::size_t t = 0; t < queue.tenants.size(); ++t) tenants.set(t, queue.tenants[t]);
    auto types = list[i].initTypes(shown[i].types.size());
    for (std::size_t t = 0; t < shown[i].types.size(); ++t) {
      const scheduler::QueueState::OfType& of = shown[i].types[t];
      types[t].setType(of.type.name);
      types[t].setGuarantee(of.guarantee);
      types[t].setLimited(of.limit.has_value());
      types[t].setLimit(of.limit.value_or(0));
      types[t].setUsed(of.used);
      types[t].setEntitled(of.entitled);
      if (given != nullptr) types[t].setReserved(of.guarantee - given->guarantee.count_of(of.type));
    }
  }
}

void ClusterSchedulerState::list_nodes(const Inbound& inbound) {
  answer<wire::NodeList>(inbound, [&](wire::NodeList::Builder b) {
    b.setWarning(store_warning());
    b.setUnixMs(options_.unix_ms());
    fill_queues(inbound, b);
    fill_claims(inbound, b);
    fill_nodes(inbound, b);
    b.setDecisionSeconds(decision_times_.seconds);
    auto counts = b.initDecisionCounts(static_cast<unsigned>(decision_times_.counts.size()));
    for (unsigned i = 0; i < counts.size(); ++i) counts.set(i, decision_times_.counts[i]);
  });
}

}  // namespace es::actors
