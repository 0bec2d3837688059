#include "actors/head/cluster_scheduler/shell/nodes.h"

#include <tuple>

#include "actors/base/gateway/shell/visit.h"
#include "actors/base/log/log.h"
#include "proto/messages.h"
#include "proto/text_of.h"

namespace es::actors {
namespace {

struct Hello {
  NodeArrival node;
  std::uint64_t clock_ms = 0;  // 0: not told
};

Result<Hello> hello_of(const Inbound& inbound) {
  return visit<wire::NodeHello>(inbound, [](wire::NodeHello::Reader r) {
    Hello hello{{name_of(r.getName(), "name"), {}, {}, {}}, r.getUnixMs()};
    for (const auto device : r.getDevices())
      hello.node.devices.add({name_of(device.getType(), "device type")}, 1);
    for (const std::uint64_t worker : r.getWorkers()) hello.node.workers.push_back({worker});
    for (const auto memory : r.getMemory())
      hello.node.memory[{name_of(memory.getType(), "device type")}] = {memory.getBytes(),
                                                                       memory.getUnsharedBytes()};
    return hello;
  });
}

// Error: the hello is refused.
Status check(const Result<Hello>& hello, const PeerId& from) {
  if (!hello) return hello.error();
  // The gateway has verified the name of the connection. A node that could use another name could
  // bring devices of that node into the cluster.
  if (from != node_peer(hello->node.name)) return refused("a node must speak in its own name");
  return {};
}

}  // namespace

std::optional<std::string> node_named(const PeerId& peer) {
  const std::string prefix = node_peer("");
  return peer.starts_with(prefix) ? std::optional(peer.substr(prefix.size())) : std::nullopt;
}

// If the file cannot be written, nodes do not find it; the error itself appears when a job is to be
// saved.
void Nodes::write_probe_file() const {
  if (options_.checkpoint_dir.empty() || options_.probe.empty()) return;
  const Status written = write_probe(options_.checkpoint_dir, options_.probe);
  if (!written.ok()) log::warning(written.error().message);
}

// Nodes tell their place before they say hello, so the first decision about their devices knows it.
void Nodes::on_place(const Inbound& inbound) {
  const auto node = node_named(inbound.from);
  const auto place = visit<wire::NodePlace>(inbound, [](wire::NodePlace::Reader r) {
    return NodePlace{name_of(r.getRack(), "rack"), r.getIslandDevices(), r.getSpot()};
  });
  if (node && place) book_.set_place(*node, *place);
}

void Nodes::on_hello(const Inbound& inbound) {
  const auto hello = hello_of(inbound);
  const Status accepted = check(hello, inbound.from);
  replies_.answer<wire::NodeWelcome>(inbound, [&](wire::NodeWelcome::Builder b) {
    b.setAccepted(accepted.ok());
    b.setReason(accepted.ok() ? "" : accepted.error().message);
    b.setCheckpointDirectory(options_.checkpoint_dir.string());
    b.setProbe(options_.probe);
  });
  // Only for a search for errors: a peer could repeat it without end, and the node logs it too.
  if (!accepted.ok())
    return log::debug("the node is refused: " + accepted.error().message, {.peer = inbound.from});
  const NodeArrival& node = hello->node;
  if (hello->clock_ms != 0)
    clocks_ahead_ms_[node.name] = static_cast<std::int64_t>(hello->clock_ms - clock_.unix_ms());
  // The hello goes to the jobs first: they must know which of their processes are gone before they
  // are given devices.
  ports_.tell_live_jobs(inbound);
  const std::set<Incarnation> strays = book_.hello(node);
  if (strays.empty()) return join_ready();
  log::info("the node waits for the end of worker processes that no job knows: " +
                std::to_string(strays.size()),
            {.node = node.name});
  for (const Incarnation stray : strays) {
    const auto kill = Msg<wire::KillWorker>::build(
        {}, [&](wire::KillWorker::Builder b) { b.setIncarnation(stray.value); });
    replies_.send(inbound.from, kill.frame());
  }
}

// The workers of the node are handed over, or their jobs are saved; then its daemon ends.
void Nodes::on_drain(const Inbound& inbound) {
  const auto node = node_named(inbound.from);
  if (!node) return;
  if (book_.drain(*node)) log::info("the node drains", {.node = *node});
  // The decision follows at once, because the time of grace of the node is running.
  decisions_.take_now(cluster::NodeDraining{*node});
  ports_.inventory_changed();
}

void Nodes::on_worker_exited(const Inbound& inbound) {
  const auto node = node_named(inbound.from);
  const auto exited = visit<wire::WorkerExited>(
      inbound, [](wire::WorkerExited::Reader r) { return Incarnation{r.getIncarnation()}; });
  if (node && exited && book_.reaped(*node, *exited)) join_ready();
}

// Other peers than nodes that have said hello cannot add entries.
void Nodes::on_directory_tried(const Inbound& inbound) {
  const auto node = node_named(inbound.from);
  const auto tried = visit<wire::DirectoryTried>(inbound, [](wire::DirectoryTried::Reader r) {
    return DirectoryTrial{r.getShared(), r.getProblem().cStr()};
  });
  if (node && tried && book_.has_said_hello(*node)) trials_[*node] = *tried;
}

Status Nodes::read_worker_log(const Inbound& inbound, const JobId& job) {
  const auto wanted = visit<wire::ReadWorkerLog>(inbound, [](wire::ReadWorkerLog::Reader r) {
    return std::tuple(Incarnation{r.getWorker()}, name_of(r.getNode(), "node"), r.getBegin());
  });
  if (!wanted) return wanted.error();
  const auto& [worker, node, begin] = *wanted;
  if (!book_.has_said_hello(node)) return not_found("node \"" + node + "\": it is not connected");
  replies_.send(node_peer(node), Msg<wire::ReadWorkerLog>::build(
                                     {.job = job, .request = inbound.frame->envelope.request},
                                     [&](wire::ReadWorkerLog::Builder b) {
                                       b.setWorker(worker.value);
                                       b.setNode(node);
                                       b.setClient(inbound.from);
                                       b.setBegin(begin);
                                     })
                                     .frame());
  return {};
}

void Nodes::on_worker_log(const Inbound& inbound) {
  const auto client = visit<wire::WorkerLog>(
      inbound, [](wire::WorkerLog::Reader r) { return PeerId(r.getClient().cStr()); });
  if (client && node_named(inbound.from) && !node_named(*client))
    replies_.send(*client, inbound.frame);
}

void Nodes::stop_waiting() {
  book_.stop_awaiting();
  join_ready();
}

// All nodes enter before one decision is made. After the first node alone, a job with devices on
// another node would seem to hold nothing and would be granted other devices.
void Nodes::join_ready() {
  if (book_.awaits_nodes()) return;
  for (const NodeArrival& node : book_.take_ready()) join(node);
  decisions_.decide_now();
  ports_.inventory_changed();
}

void Nodes::join(const NodeArrival& node) {
  log::info("the node joins with " + node.devices.text(), {.node = node.name});
  to_leave_.forget_gone(node.name);
  decisions_.record(book_.joined(node));
  // A node that was held back may have said meanwhile that it drains.
  if (book_.is_draining(node.name)) decisions_.record(cluster::NodeDraining{node.name});
}

bool Nodes::part(const std::string& node) {
  const NodeBook::Parting parting = book_.part(node);
  if (parting == NodeBook::Parting::kUnknown) return false;
  if (parting == NodeBook::Parting::kLeft)
    log::info("the node has left", {.node = node});
  else
    log::warning("the node is lost", {.node = node});
  trials_.erase(node);
  // The devices are lost first, so that no job starts anything there again.
  decisions_.take_now(cluster::NodeLost{node});
  return true;
}

const DirectoryTrial* Nodes::trial_of(const std::string& node) const {
  const auto at = trials_.find(node);
  return at == trials_.end() ? nullptr : &at->second;
}

std::optional<std::int64_t> Nodes::clock_ahead_ms(const std::string& node) const {
  const auto at = clocks_ahead_ms_.find(node);
  return at == clocks_ahead_ms_.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace es::actors
