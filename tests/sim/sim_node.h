#pragma once
// SimNode answers like a NodeAgent. Its worker processes are SimWorkers. Starting and reaping one
// takes a random time.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/node/shell/worker_process.h"
#include "proto/messages.h"
#include "tests/sim/sim_cluster.h"

namespace es::test {

struct SimNodeOptions {
  std::string name;
  DeviceSet devices;
  std::uint64_t seed = 0;
};

// The process dies.
struct CrashWorker {
  Incarnation incarnation;
};

// The process stands still until it continues. It can be killed meanwhile.
struct FreezeWorker {
  Incarnation incarnation;
};
struct WakeWorker {
  Incarnation incarnation;
};

// The machine dies with all its processes.
struct LoseNode {};

// The daemon is told to end (SIGTERM): it hands its processes over, starts none any more, and ends
// when none is left.
struct EndDaemon {};

class SimNodeState {
 public:
  static constexpr const char* name = "sim_node";
  void init(caf::stateful_actor<SimNodeState>* self, SimNodeOptions options, caf::actor gateway,
            std::shared_ptr<SimCluster> cluster);
  void on_inbound(const actors::Inbound& inbound);
  void say_hello();
  void crash(Incarnation incarnation);
  void lose();
  void end_daemon();
  void freeze(Incarnation incarnation);
  void wake(Incarnation incarnation);

  struct StartProcess {
    Incarnation incarnation;
  };
  struct Reaped {
    Incarnation incarnation;
  };
  void start_process(Incarnation incarnation);
  void on_down(const caf::down_msg& down);
  void on_reaped(Incarnation incarnation);

 private:
  struct Process {
    JobId job;
    JobSpec spec;
    DeviceId device;
    caf::actor actor;     // Empty until it is started.
    bool doomed = false;  // The process is to be killed.
    actors::ProcessExit exit;
  };
  void start(const JobId& job, wire::StartWorker::Reader request);
  void kill(const JobId& job, Incarnation incarnation);
  bool on_states(const actors::Inbound& inbound);
  void find_states(const Envelope& envelope, wire::FindStates::Reader request);
  void remove_states(wire::RemoveStates::Reader request);
  void read_state(const Envelope& envelope, wire::ReadState::Reader request);
  void end(Incarnation incarnation, actors::ProcessExit exit);
  void send_drain();
  void end_when_drained();
  void send_exited(const JobId& job, Incarnation incarnation, const actors::ProcessExit& exit);
  actors::Instant random_delay(int least_ms, int most_ms);

  caf::stateful_actor<SimNodeState>* self_ = nullptr;
  SimNodeOptions options_;
  caf::actor gateway_;
  std::shared_ptr<SimCluster> cluster_;
  std::mt19937_64 random_;
  std::map<Incarnation, Process> processes_;
  bool draining_ = false;
};

caf::behavior sim_node_actor(caf::stateful_actor<SimNodeState>* self, SimNodeOptions options,
                             caf::actor gateway, std::shared_ptr<SimCluster> cluster);

}  // namespace es::test

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::CrashWorker)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::FreezeWorker)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::WakeWorker)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::LoseNode)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::EndDaemon)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SimNodeState::StartProcess)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SimNodeState::Reaped)
