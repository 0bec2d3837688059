#include "tests/sim/sim_node.h"

#include <caf/all.hpp>

#include <csignal>
#include <set>

#include "actors/base/job_file/job_file.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "actors/node/shell/node_agent_actor.h"
#include "actors/worker/shell/worker_actor.h"
#include "actors/worker/state/saved_state_files.h"
#include "tests/sim/sim_gateway.h"
#include "tests/sim/sim_worker.h"

namespace es::test {

using namespace actors;

namespace {
const ProcessExit kKilled = {-1, SIGKILL, ""};
}  // namespace

void SimNodeState::init(caf::stateful_actor<SimNodeState>* self, SimNodeOptions options,
                        caf::actor gateway, std::shared_ptr<SimCluster> cluster) {
  self_ = self;
  options_ = std::move(options);
  gateway_ = std::move(gateway);
  cluster_ = std::move(cluster);
  random_.seed(options_.seed);
  self_->set_down_handler([this](const caf::down_msg& down) { on_down(down); });
  self_->send(gateway_, OpenPeer{node_peer(options_.name), self_, options_.name});
  self_->send(gateway_, ConnectPeer{kHead, "sim://head"});
}

Instant SimNodeState::random_delay(int least_ms, int most_ms) {
  const auto span = static_cast<std::uint64_t>(most_ms - least_ms + 1);
  return std::chrono::milliseconds(least_ms + static_cast<int>(random_() % span));
}

void SimNodeState::say_hello() {
  const auto hello = Msg<wire::NodeHello>::build({}, [&](wire::NodeHello::Builder b) {
    b.setName(options_.name);
    b.setHostId(options_.name);
    auto devices = b.initDevices(options_.devices.total());
    unsigned at = 0;
    for (const DeviceCount& c : options_.devices.counts)
      for (std::uint32_t i = 0; i < c.count; ++i)
        put(devices[at++], DeviceId{options_.name, c.type, i});
    auto workers = b.initWorkers(processes_.size());
    at = 0;
    for (const auto& [incarnation, process] : processes_) workers.set(at++, incarnation.value);
  });
  self_->send(gateway_, Outbound{kHead, hello.frame()});
  if (draining_) send_drain();
}

void SimNodeState::on_inbound(const Inbound& inbound) {
  const JobId& job = inbound.frame->envelope.job;
  if (const auto welcome = Msg<wire::NodeWelcome>::from_frame(inbound.frame)) {
    if (!welcome->view()->getAccepted()) cluster_->violations.push_back("a node was refused");
  } else if (const auto start_worker = Msg<wire::StartWorker>::from_frame(inbound.frame)) {
    start(job, *start_worker->view());
  } else if (const auto kill_worker = Msg<wire::KillWorker>::from_frame(inbound.frame)) {
    kill(job, {kill_worker->view()->getIncarnation()});
  } else if (!on_states(inbound)) {
    cluster_->violations.push_back("a node got a message that is not for nodes");
  }
}

// --- saved states on the disk of the node

bool SimNodeState::on_states(const Inbound& inbound) {
  const Envelope envelope{.job = inbound.frame->envelope.job,
                          .generation = inbound.frame->envelope.generation,
                          .step = inbound.frame->envelope.step,
                          .sender = inbound.frame->envelope.sender};
  if (const auto find = Msg<wire::FindStates>::from_frame(inbound.frame))
    find_states(envelope, *find->view());
  else if (const auto remove = Msg<wire::RemoveStates>::from_frame(inbound.frame))
    remove_states(*remove->view());
  else if (const auto part = Msg<wire::ReadState>::from_frame(inbound.frame))
    read_state(envelope, *part->view());
  else
    return false;
  return true;
}

void SimNodeState::find_states(const Envelope& envelope, wire::FindStates::Reader request) {
  const auto& disk = cluster_->disk_of(options_.name);
  const auto message = Msg<wire::StatesFound>::build(envelope, [&](wire::StatesFound::Builder b) {
    auto list = b.initStates(request.getStates().size());
    for (unsigned i = 0; i < list.size(); ++i) {
      const SavedState state = saved_state_from(request.getStates()[i]);
      const auto found = disk.find(state.path);
      const bool whole = found != disk.end() && found->second.version == state.version &&
                         digests_of(found->second) == state.digests;
      put(list[i].initState(), state);
      list[i].setSight(
          static_cast<std::uint8_t>(whole ? protocol::Sight::kWhole : protocol::Sight::kGone));
      if (!whole) list[i].setError(state.path + " is not there");
    }
  });
  self_->send(gateway_, Outbound{kHead, message.frame()});
}

void SimNodeState::remove_states(wire::RemoveStates::Reader request) {
  auto& disk = cluster_->disk_of(options_.name);
  for (const auto wire_state : request.getStates()) {
    const SavedState state = saved_state_from(wire_state);
    const auto found = disk.find(state.path);
    if (found != disk.end() && digests_of(found->second) == state.digests) disk.erase(found);
  }
  // Paths in the rescue directory of a node are relative here.
  const auto name_of = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  const std::string prefix = name_of(request.getPrefix().cStr());
  std::set<std::string> keep;
  for (const auto path : request.getKeep()) keep.insert(path.cStr());
  std::erase_if(disk, [&](const auto& entry) {
    const std::string name = name_of(entry.first);
    if (prefix.empty() || !name.starts_with(prefix) || keep.contains(entry.first)) return false;
    return std::stoull(name.substr(prefix.size())) < request.getBelow();
  });
}

void SimNodeState::read_state(const Envelope& envelope, wire::ReadState::Reader request) {
  const auto& disk = cluster_->disk_of(options_.name);
  const auto found = disk.find(request.getPath().cStr());
  const auto message = Msg<wire::StatePart>::build(envelope, [&](wire::StatePart::Builder b) {
    b.setPath(request.getPath());
    b.setGone(found == disk.end());
    if (found == disk.end()) return b.setError("it is not there");
    const std::vector<std::uint64_t> words = words_of(found->second);
    b.setData({reinterpret_cast<const kj::byte*>(words.data()), words.size() * sizeof words[0]});
  });
  self_->send(gateway_, Outbound{kHead, message.frame()});
}

void SimNodeState::start(const JobId& job, wire::StartWorker::Reader request) {
  const Incarnation incarnation{request.getIncarnation()};
  if (processes_.contains(incarnation)) return;
  if (draining_) {
    ++cluster_->refused_starts;
    return send_exited(job, incarnation, {0, 0, "the node is about to end"});
  }
  const DeviceId device = device_from(request.getDevice());
  auto spec = parse_job(request.getSpecToml().cStr(), "StartWorker");
  if (const auto [other, free] = cluster_->running.emplace(device, incarnation); !free) {
    cluster_->violations.push_back("worker " + std::to_string(incarnation.value) + " of " + job +
                                   " starts on " + device.text() + ", where worker " +
                                   std::to_string(other->second.value) + " of " +
                                   cluster_->job_of[other->second] + " still runs");
    return;
  }
  cluster_->job_of[incarnation] = job;
  ++cluster_->processes_started;
  processes_[incarnation] = {job, *std::move(spec), device, {}, false, {}};
  self_->delayed_send(self_, random_delay(50, 400), StartProcess{incarnation});
}

void SimNodeState::start_process(Incarnation incarnation) {
  Process& process = processes_.at(incarnation);
  if (process.doomed) return end(incarnation, kKilled);
  if (const auto at = cluster_->ends_at_start.find(options_.name);
      at != cluster_->ends_at_start.end())
    return end(incarnation, at->second);
  if (const auto at = cluster_->program_ends.find(process.spec.name);
      at != cluster_->program_ends.end())
    return end(incarnation, at->second);
  process.actor =
      self_->spawn(sim_worker_actor,
                   SimWorkerOptions{process.job, process.spec, incarnation, process.device,
                                    options_.seed ^ (incarnation.value * 0x9E3779B97F4A7C15u)},
                   gateway_, cluster_);
  self_->monitor(process.actor);
  self_->send(gateway_, OpenPeer{worker_peer(incarnation), process.actor, options_.name});
}

void SimNodeState::kill(const JobId& job, Incarnation incarnation) {
  const auto at = processes_.find(incarnation);
  if (at == processes_.end())
    return send_exited(job, incarnation, {0, 0, "there is no such process on this node"});
  crash(incarnation);
}

void SimNodeState::crash(Incarnation incarnation) {
  const auto at = processes_.find(incarnation);
  if (at == processes_.end() || std::exchange(at->second.doomed, true)) return;
  if (at->second.actor) self_->send_exit(at->second.actor, caf::exit_reason::kill);
}

void SimNodeState::freeze(Incarnation incarnation) {
  const auto at = processes_.find(incarnation);
  if (at == processes_.end() || !at->second.actor || at->second.doomed) return;
  self_->send(gateway_, FreezePeer{worker_peer(incarnation)});
  self_->send(at->second.actor, SimWorkerState::Freeze{true});
}

void SimNodeState::wake(Incarnation incarnation) {
  const auto at = processes_.find(incarnation);
  if (at == processes_.end() || !at->second.actor) return;
  self_->send(gateway_, WakePeer{worker_peer(incarnation)});
  self_->send(at->second.actor, SimWorkerState::Freeze{false});
}

void SimNodeState::on_down(const caf::down_msg& down) {
  for (const auto& [incarnation, process] : processes_)
    if (process.actor && process.actor->address() == down.source)
      return end(incarnation, process.doomed ? kKilled : ProcessExit{});
}

void SimNodeState::end(Incarnation incarnation, ProcessExit exit) {
  Process& process = processes_.at(incarnation);
  process.exit = std::move(exit);
  process.actor = {};
  self_->send(gateway_, ClosePeer{worker_peer(incarnation)});
  self_->delayed_send(self_, random_delay(1, 50), Reaped{incarnation});
}

void SimNodeState::on_reaped(Incarnation incarnation) {
  const Process process = processes_.at(incarnation);
  processes_.erase(incarnation);
  cluster_->running.erase(process.device);
  cluster_->job_of.erase(incarnation);
  send_exited(process.job, incarnation, process.exit);
  end_when_drained();
}

void SimNodeState::send_exited(const JobId& job, Incarnation incarnation, const ProcessExit& exit) {
  const auto message =
      Msg<wire::WorkerExited>::build({.job = job}, [&](wire::WorkerExited::Builder b) {
        b.setIncarnation(incarnation.value);
        b.setExitCode(exit.exit_code);
        b.setSignal(exit.signal);
        b.setLastWords(exit.last_words);
        b.setOutOfMemory(exit.out_of_memory);
      });
  self_->send(gateway_, Outbound{kHead, message.frame()});
}

void SimNodeState::end_daemon() {
  draining_ = true;
  send_drain();
  end_when_drained();
}

void SimNodeState::send_drain() {
  const auto message = Msg<wire::DrainNode>::build({}, [](wire::DrainNode::Builder) {});
  self_->send(gateway_, Outbound{kHead, message.frame()});
}

void SimNodeState::end_when_drained() {
  if (!draining_ || !processes_.empty()) return;
  cluster_->ended_daemons.insert(options_.name);
  self_->send(gateway_, ClosePeer{node_peer(options_.name)});
  self_->quit();
}

void SimNodeState::lose() {
  for (const auto& [incarnation, process] : processes_) {
    if (process.actor) self_->send_exit(process.actor, caf::exit_reason::kill);
    self_->send(gateway_, ClosePeer{worker_peer(incarnation), SimGatewayState::kSilence});
    cluster_->running.erase(process.device);
    cluster_->job_of.erase(incarnation);
  }
  self_->send(gateway_, ClosePeer{node_peer(options_.name), SimGatewayState::kSilence});
  self_->quit();
}

caf::behavior sim_node_actor(caf::stateful_actor<SimNodeState>* self, SimNodeOptions options,
                             caf::actor gateway, std::shared_ptr<SimCluster> cluster) {
  self->state.init(self, std::move(options), std::move(gateway), std::move(cluster));
  return {
      [=](const Inbound& m) { self->state.on_inbound(m); },
      [=](const PeerUp&) { self->state.say_hello(); },
      [](const PeerDown&) {},
      [=](const SimNodeState::StartProcess& m) { self->state.start_process(m.incarnation); },
      [=](const SimNodeState::Reaped& m) { self->state.on_reaped(m.incarnation); },
      [=](const CrashWorker& m) { self->state.crash(m.incarnation); },
      [=](const FreezeWorker& m) { self->state.freeze(m.incarnation); },
      [=](const WakeWorker& m) { self->state.wake(m.incarnation); },
      [=](const LoseNode&) { self->state.lose(); },
      [=](const EndDaemon&) { self->state.end_daemon(); },
  };
}

}  // namespace es::test
