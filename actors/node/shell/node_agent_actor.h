#pragma once
// NodeAgent is the actor that owns the devices of a node and the worker processes on them. There is
// one for each daemon. ProcessTable decides what is started and killed.
//
// Accepts   NodeWelcome from the head. If the head refuses the node, the daemon ends with the
//           reason.
//           StartWorker from the head: starts a process, which sends Hello to the head by itself,
//           or answers WorkerExited. An incarnation that is known already is ignored.
//           KillWorker from the head: SIGKILL, then WorkerExited; WorkerExited at once if there is
//           no such process.
//           PeerUp of the head: answers NodePlace, if the place is known, and NodeHello, so a
//           restarted head learns what runs here.
//           FindStates, RemoveStates, ReadState from the head: saved states of jobs on this disk
//           (node_agent_states.cc).
//           ReadWorkerLog from the head, which a client has asked: answers WorkerLog with the end
//           of the log of a worker that this daemon has started.
//           Drain from the daemon: sends DrainNode and starts no process any more. When no process
//           is left, the daemon may end.
//           ProcessStarted and ProcessEnded from the supervisor of a process; StateAnswer from the
//           thread that has served a request about saved states.
// Sends     ConnectPeer to the gateway. To the head, through the gateway: NodePlace,
//           NodeHello, DirectoryTried, DrainNode, WorkerExited, StatesFound, StatesRemoved,
//           StatePart, WorkerLog.
// State     The processes by incarnation. Nothing is saved, because the processes themselves are
//           the state.
// Fails     When this process ends, the kernel ends its workers (worker_process.h). Each worker
//           process has a detached supervisor that waits for it and reports its end as a message.
// Order     As the gateway promises.
// Limits    One process for each device; the head ensures this.
// Threads   Cooperative. Detached threads: one supervisor for each worker process, and one for each
//           request that reads the disk.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/base/log/line.h"
#include "actors/base/protocol/core/messages.h"
#include "actors/node/core/process_table.h"
#include "actors/node/shell/node_memory.h"
#include "actors/node/shell/worker_process.h"
#include "actors/worker/state/node_roots.h"
#include "proto/messages.h"

namespace es::actors {

struct NodeAgentOptions {
  std::string name;
  std::vector<DeviceId> devices;
  std::map<DeviceType, scheduler::MemoryRoom> memory;  // of each type of these devices
  std::string rack;                                    // where the node stands; empty: not known
  std::uint32_t island_devices = 0;                    // as in NodePlace
  bool spot = false;                                   // the machine may be taken away at any time
  std::string head_endpoint;                           // for this agent and its workers
  std::filesystem::path run_dir;                       // sockets, specs and logs of workers; exists
  NodeDirectories directories;              // what this node and its workers may read and write
  std::uint32_t worker_logs = 1000;         // of workers that have ended; older ones are removed
  std::vector<std::string> worker_command;  // program and leading arguments
  // Called when the head has admitted this node, so that its devices can be used.
  std::function<void()> on_welcome;
  // Called when the head refuses this node. Ends the daemon.
  std::function<void(const std::string& reason)> on_refused;
  // Called after Drain, when no process is left.
  std::function<void()> on_drained;
};

// From the daemon: hand over the workers of this node, then call on_drained.
struct Drain {};

// From a supervisor.
struct ProcessStarted {
  Incarnation incarnation;
  pid_t pid = 0;
};
struct ProcessEnded {
  Incarnation incarnation;
  ProcessExit exit;
};

// From the thread that serves a request about saved states.
struct StateAnswer {
  std::shared_ptr<const Frame> frame;
};

class NodeAgentState {
 public:
  void init(caf::stateful_actor<NodeAgentState>* self, NodeAgentOptions options,
            caf::actor gateway);
  void on_inbound(const Inbound& inbound);
  void on_peer_up(const PeerUp& up);
  void on_peer_down();
  void drain();
  void on_started(const ProcessStarted& started);
  void on_ended(const ProcessEnded& ended);
  void answer(const StateAnswer& answer);

 private:
  void on_welcome(wire::NodeWelcome::Reader r);
  void on_states(const Inbound& inbound);
  void try_head_directory(wire::NodeWelcome::Reader r);
  void on_thread(std::function<std::shared_ptr<const Frame>()> work);
  void start(const JobId& job, wire::StartWorker::Reader request);
  void kill(const JobId& job, Incarnation incarnation);
  void read_log(const Envelope& envelope, wire::ReadWorkerLog::Reader request);
  std::filesystem::path log_of(Incarnation incarnation) const;
  void send_drain();
  void end_when_drained();
  void send_exited(const JobId& job, Incarnation incarnation, const ProcessExit& exit);
  log::About about(const JobId& job, Incarnation incarnation) const;
  std::vector<std::string> command_line(const JobId& job, Incarnation incarnation,
                                        const DeviceId& device,
                                        const std::filesystem::path& spec_file) const;

  caf::stateful_actor<NodeAgentState>* self_ = nullptr;
  NodeAgentOptions options_;
  caf::actor gateway_;
  ProcessTable processes_;
  std::map<Incarnation, JobId> logs_;  // whose logs are here, of the workers of this daemon
  bool linked_ = false;                // to the head
};

caf::behavior node_agent_actor(caf::stateful_actor<NodeAgentState>* self, NodeAgentOptions options,
                               caf::actor gateway);

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::Drain)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::ProcessStarted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::ProcessEnded)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::StateAnswer)
