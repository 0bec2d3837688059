#pragma once
// NodeAgent: one per daemon; owns the node's devices and the worker processes on them.
//
// Accepts   NodeWelcome from the head: refused -> ends the daemon with the reason.
//           StartWorker from the head -> a process, which says Hello to the head itself, or
//           WorkerExited. Known incarnations again: ignored.
//           KillWorker -> SIGKILL, then WorkerExited; WorkerExited at once when it is not there.
//           PeerUp of the head -> NodeHello, so a restarted head learns what runs here.
//           FindStates, RemoveStates, ReadState of the head: saved states of jobs on this disk
//           (node_agent_states.cc).
//           Drain of the daemon -> DrainNode; nothing is started any more, and when no process is
//           left the daemon may end.
// Sends     NodeHello, DirectoryTried, DrainNode, WorkerExited, StatesFound, StatesRemoved,
//           StatePart to the head through the gateway.
// State     processes by incarnation. Nothing saved: the processes themselves are the state.
// Fails     When this process ends, its workers are ended by the kernel (worker_process.h).
//           Each process has a detached supervisor that waits for it; its end is a message.
// Order     As the gateway promises.
// Limits    One process per device; the head sees to that.
// Threads   Cooperative; supervisors are detached, one per worker process, and so is what reads the
//           disk, one per request.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/gateway/gateway_messages.h"
#include "actors/node_agent/worker_process.h"
#include "actors/protocol/messages.h"
#include "proto/messages.h"

namespace es::actors {

struct NodeAgentOptions {
  std::string name;
  std::vector<DeviceId> devices;
  std::string head_endpoint;                // for this agent and its workers
  std::filesystem::path run_dir;            // sockets, specs and logs of workers; exists
  std::vector<std::string> worker_command;  // program and leading arguments
  // Called when the head has taken this node in: from now on its devices can be asked for.
  std::function<void()> on_welcome;
  // Called when the head refuses this node; ends the daemon.
  std::function<void(const std::string& reason)> on_refused;
  // Called after Drain, when no process is left.
  std::function<void()> on_drained;
};

// daemon -> node agent: hand over what runs here, then call on_drained.
struct Drain {};

// supervisor -> node agent.
struct ProcessStarted {
  Incarnation incarnation;
  pid_t pid = 0;
};
struct ProcessEnded {
  Incarnation incarnation;
  ProcessExit exit;
};

// thread of a request about saved states -> node agent.
struct StateAnswer {
  std::shared_ptr<const Frame> frame;
};

class NodeAgentState {
 public:
  void init(caf::stateful_actor<NodeAgentState>* self, NodeAgentOptions options,
            caf::actor gateway);
  void on_inbound(const Inbound& inbound);
  void on_peer_up(const PeerUp& up);
  void drain();
  void on_started(const ProcessStarted& started);
  void on_ended(const ProcessEnded& ended);
  void answer(const StateAnswer& answer);

 private:
  struct Process {
    JobId job;
    pid_t pid = 0;        // 0 until it is started
    bool doomed = false;  // to be killed as soon as it is started
  };
  void on_welcome(wire::NodeWelcome::Reader r);
  void on_states(const Inbound& inbound);
  void try_head_directory(wire::NodeWelcome::Reader r);
  void on_thread(std::function<std::shared_ptr<const Frame>()> work);
  void start(const JobId& job, wire::StartWorker::Reader request);
  void kill(const JobId& job, Incarnation incarnation);
  void send_drain();
  void end_when_drained();
  void send_exited(const JobId& job, Incarnation incarnation, const ProcessExit& exit);
  std::vector<std::string> command_line(const JobId& job, Incarnation incarnation,
                                        const DeviceId& device,
                                        const std::filesystem::path& spec_file) const;

  caf::stateful_actor<NodeAgentState>* self_ = nullptr;
  NodeAgentOptions options_;
  caf::actor gateway_;
  std::map<Incarnation, Process> processes_;
  bool draining_ = false;
};

caf::behavior node_agent_actor(caf::stateful_actor<NodeAgentState>* self, NodeAgentOptions options,
                               caf::actor gateway);

PeerId node_peer(const std::string& name);

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::Drain)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::ProcessStarted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::ProcessEnded)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::StateAnswer)
