#pragma once
// SimWorker is a worker process with the real WorkerCore and a toy engine whose work takes the
// modelled time of its device type.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/worker/core/worker_core.h"
#include "tests/sim/sim_cluster.h"

namespace es::test {

struct SimWorkerOptions {
  JobId job;
  JobSpec spec;
  Incarnation incarnation;
  DeviceId device;
  std::uint64_t seed = 0;
};

class SimWorkerState {
 public:
  static constexpr const char* name = "sim_worker";
  void init(caf::stateful_actor<SimWorkerState>* self, SimWorkerOptions options, caf::actor gateway,
            std::shared_ptr<SimCluster> cluster);
  void on_peer_up(const actors::PeerUp& up);
  void on_inbound(const actors::Inbound& inbound);
  void tick();

  struct EngineDone {
    actors::worker::EngineEvent event;
  };
  void on_engine(const EngineDone& done);
  struct Freeze {
    bool on = false;
  };
  void on_freeze(const Freeze& freeze);
  // Runs it now. If the process stands still, runs it when the process continues.
  void when_awake(std::function<void()> event);

 private:
  void perform(const actors::worker::Effects& effects);
  void perform_effect(const actors::worker::SendHead& effect);
  void perform_effect(const actors::worker::SendPeer& effect);
  void perform_effect(const actors::worker::PullState& effect);
  void perform_effect(const actors::worker::LoadVersion& effect);
  void perform_effect(const actors::worker::WriteVersion& effect);
  void perform_effect(const actors::worker::Exit& effect);
  void perform_effect(const actors::worker::Abort& effect);
  void perform_effect(const actors::worker::ReportAnomaly& effect);
  void perform_effect(const auto& engine_effect) { engine_->add(engine_effect); }
  void on_state_part(const actors::Inbound& inbound);
  void record_samples();
  void work();
  void send_stats(Version version);
  actors::Instant duration_of(const actors::worker::EngineEvent& event);
  void violated(const std::string& what);
  actors::Instant now() const;

  caf::stateful_actor<SimWorkerState>* self_ = nullptr;
  SimWorkerOptions options_;
  caf::actor gateway_;
  std::shared_ptr<SimCluster> cluster_;
  std::mt19937_64 random_;
  std::optional<actors::worker::WorkerCore> core_;
  std::unique_ptr<ToyEngine> engine_;
  std::set<std::string> connected_;
  std::optional<Generation> pulls_;  // A state from the disk of another node.
  std::optional<ToyVersion> copy_;   // The copy of it.
  bool working_ = false;
  bool frozen_ = false;
  std::vector<std::function<void()>> missed_;  // While frozen, in order.
};

caf::behavior sim_worker_actor(caf::stateful_actor<SimWorkerState>* self, SimWorkerOptions options,
                               caf::actor gateway, std::shared_ptr<SimCluster> cluster);

}  // namespace es::test

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SimWorkerState::EngineDone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::test::SimWorkerState::Freeze)
