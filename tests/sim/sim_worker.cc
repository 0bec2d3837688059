#include "tests/sim/sim_worker.h"

#include <caf/all.hpp>

#include "actors/common/caf_messages.h"
#include "actors/protocol/codec.h"
#include "actors/worker/worker_actor.h"
#include "proto/messages.h"

namespace es::test {

using namespace actors;
using std::chrono::milliseconds;

namespace {

using TickAtom = caf::atom_constant<caf::atom("tick")>;
constexpr auto kTickInterval = std::chrono::seconds(1);
const PeerId kHead = "head";

}  // namespace

void SimWorkerState::init(caf::stateful_actor<SimWorkerState>* self, SimWorkerOptions options,
                          caf::actor gateway, std::shared_ptr<SimCluster> cluster) {
  self_ = self;
  options_ = std::move(options);
  gateway_ = std::move(gateway);
  cluster_ = std::move(cluster);
  random_.seed(options_.seed);
  core_.emplace(worker::WorkerConfig{.self = options_.incarnation,
                                     .device = options_.device,
                                     .address = "sim://" + worker_peer(options_.incarnation),
                                     .host_id = options_.device.node,
                                     .max_p = options_.spec.max_p,
                                     .eval_every = options_.spec.eval_every});
  engine_ = std::make_unique<ToyEngine>(
      toy_job(options_.spec), [this](Incarnation of) { return cluster_->job_of.contains(of); },
      [this](const std::string& path) { return cluster_->checkpoints.at(path); });
  engine_->on_checkpoint = [this](const std::string& path, const ToyVersion& version) {
    return cluster_->checkpoints.emplace(path, version).second;
  };
  self_->send(gateway_, ConnectPeer{kHead, "sim://head"});
  self_->delayed_send(self_, kTickInterval, TickAtom::value);
}

Instant SimWorkerState::now() const {
  return self_->clock().now().time_since_epoch();
}

void SimWorkerState::violated(const std::string& what) {
  cluster_->violations.push_back("worker " + std::to_string(options_.incarnation.value) + ": " +
                                 what);
}

void SimWorkerState::on_peer_up(const PeerUp& up) {
  if (up.peer == kHead) perform(core_->hello());
}

void SimWorkerState::on_inbound(const Inbound& inbound) {
  const Head& head = inbound.frame->head;
  if (head.job != options_.job) return violated("a message for job " + head.job);
  if (inbound.from == kHead) {
    const auto message = protocol::decode_head(inbound.frame);
    if (!message) return violated(message.error().message);
    perform(core_->on(*message, now()));
  } else {
    const auto message = protocol::decode_peer(inbound.frame);
    if (!message) return violated(message.error().message);
    perform(core_->on(*message, now()));
  }
}

void SimWorkerState::tick() {
  self_->delayed_send(self_, kTickInterval, TickAtom::value);
  perform(core_->tick(now()));
}

void SimWorkerState::perform(const worker::Effects& effects) {
  for (const worker::Effect& effect : effects)
    std::visit([this](const auto& e) { perform_effect(e); }, effect);
  work();
}

void SimWorkerState::perform_effect(const worker::SendHead& effect) {
  self_->send(gateway_, Outbound{kHead, protocol::encode(options_.job, effect.message)});
}

void SimWorkerState::perform_effect(const worker::SendPeer& effect) {
  const PeerId peer = worker_peer(effect.to);
  if (connected_.insert(peer).second) self_->send(gateway_, ConnectPeer{peer, effect.address});
  self_->send(gateway_, Outbound{peer, protocol::encode(options_.job, effect.message)});
}

void SimWorkerState::perform_effect(const worker::Exit&) {
  self_->quit();
}

void SimWorkerState::perform_effect(const worker::Abort& effect) {
  violated("abort: " + effect.reason);
  self_->quit(caf::exit_reason::unhandled_exception);
}

void SimWorkerState::perform_effect(const worker::ReportAnomaly& effect) {
  violated("anomaly: " + effect.text);
}

// --- the engine: one piece at a time, its answer comes when the piece's time is over

void SimWorkerState::work() {
  if (working_ || !engine_->busy()) return;
  working_ = true;
  EngineDone done{engine_->run()};
  const Instant duration = duration_of(done.event);
  self_->delayed_send(self_, duration, std::move(done));
}

void SimWorkerState::on_engine(const EngineDone& done) {
  working_ = false;
  if (const auto* applied = std::get_if<worker::UpdateApplied>(&done.event))
    send_stats(applied->line.version);
  perform(core_->on(done.event, now()));
}

Instant SimWorkerState::duration_of(const worker::EngineEvent& event) {
  const auto jitter = [this](Instant time) {  // 90 % to 110 %
    return time * (900 + static_cast<Instant::rep>(random_() % 201)) / 1000;
  };
  if (const auto* summed = std::get_if<worker::PartSummed>(&event)) {
    const Instant all = summed->ranks.size() * cluster_->step_time_of(options_.device.type);
    return jitter(all / kToyBuckets);
  }
  if (std::holds_alternative<worker::EvaluationDone>(event)) return jitter(milliseconds(30));
  if (std::holds_alternative<worker::CheckpointFinished>(event)) return jitter(milliseconds(20));
  return jitter(milliseconds(1));
}

void SimWorkerState::send_stats(Version version) {
  Head head;
  head.job = options_.job;
  head.generation = core_->generation();
  head.sender = options_.incarnation;
  const Instant step = cluster_->step_time_of(options_.device.type);
  const auto message = Msg<wire::WorkerStats>::build(head, [&](wire::WorkerStats::Builder b) {
    b.setVersion(version);
    b.setLocalStepSeconds(std::chrono::duration<double>(step).count());
    b.setPid(options_.incarnation.value);
  });
  self_->send(gateway_, Outbound{kHead, message.frame()});
}

caf::behavior sim_worker_actor(caf::stateful_actor<SimWorkerState>* self, SimWorkerOptions options,
                               caf::actor gateway, std::shared_ptr<SimCluster> cluster) {
  self->state.init(self, std::move(options), std::move(gateway), std::move(cluster));
  return {
      [=](const Inbound& m) { self->state.on_inbound(m); },
      [=](const PeerUp& m) { self->state.on_peer_up(m); },
      [](const PeerDown&) {},
      [=](const SimWorkerState::EngineDone& m) { self->state.on_engine(m); },
      [=](TickAtom) { self->state.tick(); },
  };
}

}  // namespace es::test
