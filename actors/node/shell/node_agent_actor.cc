#include "actors/node/shell/node_agent_actor.h"

#include <caf/all.hpp>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <utility>

#include "actors/base/gateway/core/host_id.h"
#include "actors/base/gateway/shell/visit.h"
#include "actors/base/log/log.h"
#include "actors/base/log/tail.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "actors/node/shell/oom_kills.h"
#include "actors/node/shell/worker_logs.h"
#include "actors/worker/state/state_pull.h"
#include "proto/base/kill_point.h"
#include "proto/base/text.h"

namespace es::actors {
namespace {

constexpr std::size_t kLogBytesMax = 256 << 10;

ProcessExit not_started(const std::string& why) {
  return {.exit_code = kNotStarted, .last_words = why};
}

// Runs on a thread of its own, which lives as long as the process: the kernel kills a worker when
// the thread that started it ends.
void supervise(caf::event_based_actor* self, const caf::actor& agent, Incarnation incarnation,
               const std::vector<std::string>& command, const std::filesystem::path& log_file) {
  kill_point("spawn.before");
  const std::optional<std::uint64_t> oom_kills_before = oom_kills();
  const Result<pid_t> pid = start_process(command, log_file);
  kill_point("spawn.after");
  if (!pid) {
    self->send(agent, ProcessEnded{incarnation, not_started(pid.error().message)});
    return;
  }
  self->send(agent, ProcessStarted{incarnation, *pid});
  ProcessExit exit = wait_for_process(*pid, log_file);
  exit.out_of_memory = exit.signal == SIGKILL && oom_kills_before < oom_kills();
  self->send(agent, ProcessEnded{incarnation, std::move(exit)});
}

// Error: the disk is full, for example, or not writable.
Status write_text(const std::filesystem::path& file, const std::string& text) {
  errno = 0;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (out) return {};
  const int code = errno;
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  return failure(file.string() + " cannot be written" +
                 (code == 0 ? "" : std::string(": ") + std::strerror(code)));
}

}  // namespace

void NodeAgentState::init(caf::stateful_actor<NodeAgentState>* self, NodeAgentOptions options,
                          caf::actor gateway) {
  self_ = self;
  options_ = std::move(options);
  gateway_ = std::move(gateway);
  self_->send(gateway_, ConnectPeer{kHeadPeer, options_.head_endpoint});
}

log::About NodeAgentState::about(const JobId& job, Incarnation incarnation) const {
  return {.job = job, .worker = incarnation.value, .node = options_.name};
}

void NodeAgentState::on_peer_up(const PeerUp& up) {
  if (up.peer != kHeadPeer) return;
  linked_ = true;
  if (!options_.rack.empty() || options_.island_devices > 0 || options_.spot) {
    const auto place = Msg<wire::NodePlace>::build({}, [&](wire::NodePlace::Builder b) {
      b.setRack(options_.rack);
      b.setIslandDevices(options_.island_devices);
      b.setSpot(options_.spot);
    });
    self_->send(gateway_, Outbound{kHeadPeer, place.frame()});
  }
  const auto hello = Msg<wire::NodeHello>::build({}, [&](wire::NodeHello::Builder b) {
    b.setName(options_.name);
    b.setHostId(host_id());
    b.setUnixMs(static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                               std::chrono::system_clock::now().time_since_epoch())
                                               .count()));
    auto devices = b.initDevices(options_.devices.size());
    for (std::size_t i = 0; i < options_.devices.size(); ++i) put(devices[i], options_.devices[i]);
    auto memory = b.initMemory(static_cast<unsigned>(options_.memory.size()));
    for (unsigned i = 0; const auto& [type, bytes] : options_.memory) {
      memory[i].setType(type.name);
      memory[i].setBytes(bytes.all);
      memory[i++].setUnsharedBytes(bytes.unshared);
    }
    // The list includes processes that have not been started yet and those that have ended but were
    // not reaped. The head may call a device free only when none of them is left.
    const std::vector<Incarnation> running = processes_.incarnations();
    auto workers = b.initWorkers(running.size());
    for (unsigned i = 0; i < running.size(); ++i) workers.set(i, running[i].value);
  });
  self_->send(gateway_, Outbound{kHeadPeer, hello.frame()});
  // A head that was restarted, or missed the message, does not know yet that this node drains.
  if (processes_.draining()) send_drain();
}

// The gateway tries again, and PeerUp follows.
void NodeAgentState::on_peer_down() {
  if (std::exchange(linked_, false))
    log::warning("the link to the head is lost", {.node = options_.name});
}

void NodeAgentState::drain() {
  processes_.drain();
  send_drain();
  end_when_drained();
}

void NodeAgentState::send_drain() {
  const auto message = Msg<wire::DrainNode>::build({}, [](wire::DrainNode::Builder) {});
  self_->send(gateway_, Outbound{kHeadPeer, message.frame()});
}

void NodeAgentState::end_when_drained() {
  if (processes_.drained()) options_.on_drained();
}

void NodeAgentState::on_welcome(wire::NodeWelcome::Reader r) {
  if (!r.getAccepted()) return options_.on_refused(r.getReason().cStr());
  options_.on_welcome();
  options_.directories.head = r.getCheckpointDirectory().cStr();
  try_head_directory(r);
}

// What is malformed is ignored.
void NodeAgentState::on_inbound(const Inbound& inbound) {
  if (inbound.from != kHeadPeer) return;
  const JobId& job = inbound.frame->envelope.job;
  switch (inbound.frame->envelope.type) {
    case MessageType::kNodeWelcome:
      (void)visit<wire::NodeWelcome>(inbound, [&](auto r) { on_welcome(r); });
      break;
    case MessageType::kStartWorker:
      (void)visit<wire::StartWorker>(inbound, [&](auto r) { start(job, r); });
      break;
    case MessageType::kKillWorker:
      (void)visit<wire::KillWorker>(inbound, [&](auto r) { kill(job, {r.getIncarnation()}); });
      break;
    case MessageType::kReadWorkerLog:
      (void)visit<wire::ReadWorkerLog>(inbound,
                                       [&](auto r) { read_log(inbound.frame->envelope, r); });
      break;
    default:
      on_states(inbound);
  }
}

std::vector<std::string> NodeAgentState::command_line(
    const JobId& job, Incarnation incarnation, const DeviceId& device,
    const std::filesystem::path& spec_file) const {
  std::vector<std::string> command = options_.worker_command;
  const std::string number = std::to_string(incarnation.value);
  for (const std::string& argument :
       {std::string("--job"), job, std::string("--incarnation"), number, std::string("--node"),
        device.node, std::string("--device"), device.type.name, std::string("--device-index"),
        std::to_string(device.index), std::string("--head"), options_.head_endpoint,
        std::string("--spec"), spec_file.string(), std::string("--run-dir"),
        options_.run_dir.string()})
    command.push_back(argument);
  if (const std::string& head = options_.directories.head; !head.empty())
    command.insert(command.end(), {"--head-checkpoints", head});
  return command;
}

void NodeAgentState::start(const JobId& job, wire::StartWorker::Reader request) {
  const Incarnation incarnation{request.getIncarnation()};
  // Reading throws on malformed content, so everything is read before the process is in the table.
  const std::string spec = request.getSpecToml().cStr();
  const DeviceId device = device_from(request.getDevice());
  const ProcessTable::Start decision = processes_.start(job, incarnation);
  if (decision == ProcessTable::Start::kKnown) return;
  // The head learns of it as the end of the process, so the job can use another device.
  if (decision == ProcessTable::Start::kRefused)
    return send_exited(job, incarnation, {0, 0, "the node is about to end"});
  const std::string stem = "worker-" + std::to_string(incarnation.value);
  const std::filesystem::path spec_file = options_.run_dir / (stem + ".toml");
  if (const Status written = write_text(spec_file, spec); !written.ok()) {
    processes_.not_started(incarnation);
    return send_exited(job, incarnation, not_started(written.error().message));
  }
  logs_[incarnation] = job;
  // A thread of its own for each process, which waits for its end (supervise).
  self_->spawn<caf::detached>([=, agent = caf::actor_cast<caf::actor>(self_),
                               command = command_line(job, incarnation, device, spec_file),
                               log_file = log_of(incarnation)](caf::event_based_actor* supervisor) {
    supervise(supervisor, agent, incarnation, command, log_file);
  });
}

void NodeAgentState::kill(const JobId& job, Incarnation incarnation) {
  const ProcessTable::Kill decision = processes_.kill(incarnation);
  if (decision == ProcessTable::Kill::kUnknown)
    // WorkerExited may have been lost with a link. It is sent again, because the head waits for it
    // before it gives the device to another job.
    return send_exited(job, incarnation, {0, 0, "there is no such process on this node"});
  log::debug("the process is killed because the head requests it", about(job, incarnation));
  if (decision == ProcessTable::Kill::kNow) ::kill(processes_.pid(incarnation), SIGKILL);
}

std::filesystem::path NodeAgentState::log_of(Incarnation incarnation) const {
  return options_.run_dir / ("worker-" + std::to_string(incarnation.value) + ".log");
}

// A client of one job must not read the logs of another one.
void NodeAgentState::read_log(const Envelope& envelope, wire::ReadWorkerLog::Reader request) {
  const Incarnation worker{request.getWorker()};
  const auto known = logs_.find(worker);
  const bool found = known != logs_.end() && known->second == envelope.job;
  const std::string client = request.getClient().cStr();
  const std::string error = found ? ""
                                  : "worker " + std::to_string(worker.value) + ": the node " +
                                        options_.name + " has no log of such a worker of this job";
  // Asked before the file is read: what a worker that has ended wrote is in the file.
  const bool is_over = !processes_.contains(worker);
  on_thread([=, file = log_of(worker), begin = request.getBegin()] {
    const log::Part part = found ? log::part_of(file, begin, kLogBytesMax, is_over) : log::Part();
    return Msg<wire::WorkerLog>::build(envelope,
                                       [&](wire::WorkerLog::Builder b) {
                                         b.setText(escaped(part.text, "\n"));
                                         b.setError(error);
                                         b.setClient(client);
                                         b.setEnd(part.end);
                                         b.setComplete(part.complete);
                                       })
        .frame();
  });
}

void NodeAgentState::on_started(const ProcessStarted& started) {
  log::info("the process is started: " + std::to_string(started.pid),
            about(processes_.job(started.incarnation), started.incarnation));
  // The request to kill the process may have arrived before its id was known.
  if (processes_.started(started.incarnation, started.pid)) ::kill(started.pid, SIGKILL);
}

void NodeAgentState::on_ended(const ProcessEnded& ended) {
  if (!processes_.contains(ended.incarnation)) return;
  kill_point("reap.before");
  // The process is reaped by the actor that also signals it, so a signal never hits a reused
  // process id.
  if (const pid_t pid = processes_.pid(ended.incarnation); pid != 0) reap_process(pid);
  kill_point("reap.after");
  const JobId job = *processes_.ended(ended.incarnation);
  log::info("the process " + describe(ended.exit), about(job, ended.incarnation));
  const std::string stem = "worker-" + std::to_string(ended.incarnation.value);
  std::error_code ignored;
  for (const char* suffix : {".toml", ".sock"})
    std::filesystem::remove(options_.run_dir / (stem + suffix), ignored);
  // A worker that was killed cannot remove the copy of a saved state that it was fetching.
  std::filesystem::remove_all(options_.run_dir / (stem + worker::kPulledSuffix), ignored);
  remove_old_worker_logs(options_.run_dir, processes_.incarnations(), options_.worker_logs);
  std::erase_if(logs_, [&](const auto& log) {
    return !processes_.contains(log.first) && !std::filesystem::exists(log_of(log.first), ignored);
  });
  // Sent only after the process was reaped: from now on no process uses the device.
  send_exited(job, ended.incarnation, ended.exit);
  end_when_drained();
}

void NodeAgentState::send_exited(const JobId& job, Incarnation incarnation,
                                 const ProcessExit& exit) {
  Envelope envelope;
  envelope.job = job;
  const auto message = Msg<wire::WorkerExited>::build(envelope, [&](wire::WorkerExited::Builder b) {
    b.setIncarnation(incarnation.value);
    b.setExitCode(exit.exit_code);
    b.setSignal(exit.signal);
    b.setLastWords(exit.last_words);
    b.setOutOfMemory(exit.out_of_memory);
  });
  self_->send(gateway_, Outbound{kHeadPeer, message.frame()});
}

caf::behavior node_agent_actor(caf::stateful_actor<NodeAgentState>* self, NodeAgentOptions options,
                               caf::actor gateway) {
  self->state.init(self, std::move(options), std::move(gateway));
  return {
      [=](const Inbound& inbound) { self->state.on_inbound(inbound); },
      [=](const PeerUp& up) { self->state.on_peer_up(up); },
      [=](const PeerDown&) { self->state.on_peer_down(); },
      [=](const Drain&) { self->state.drain(); },
      [=](const ProcessStarted& started) { self->state.on_started(started); },
      [=](const ProcessEnded& ended) { self->state.on_ended(ended); },
      [=](const StateAnswer& answer) { self->state.answer(answer); },
  };
}

}  // namespace es::actors
