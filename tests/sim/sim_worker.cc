#include "tests/sim/sim_worker.h"

#include <caf/all.hpp>

#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/base/protocol/wire/codec.h"
#include "actors/worker/shell/worker_actor.h"
#include "proto/messages.h"

namespace es::test {

using namespace actors;
using std::chrono::milliseconds;

namespace {

using TickAtom = caf::atom_constant<caf::atom("tick")>;
constexpr auto kTickInterval = std::chrono::seconds(1);
const std::string kCopy = "copy";

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
      toy_job(options_.spec), options_.incarnation,
      [this](Incarnation of) { return cluster_->job_of.contains(of); },
      [this](const std::string& path) -> std::optional<ToyVersion> {
        if (path == kCopy) return copy_;
        const auto& disk = cluster_->disk_of(options_.device.node);
        const auto found = disk.find(path);
        return found == disk.end() ? std::nullopt : std::optional(found->second);
      });
  engine_->on_checkpoint = [this](const std::string& path, const ToyVersion& version) {
    if (cluster_->disk_fails) return false;
    auto& disk = cluster_->disk_of(options_.device.node);
    if (disk.emplace(path, version).second) return true;
    // As worker::keep_snapshot does.
    return path.starts_with("/series/") && disk.at(path) == version;
  };
  record_samples();
  self_->send(gateway_, ConnectPeer{kHead, "sim://head"});
  self_->delayed_send(self_, kTickInterval, TickAtom::value);
}

// Reads like the real data workers: the number of the step and the rank alone decide.
void SimWorkerState::record_samples() {
  engine_->read_samples = [sampler = sampler_of(options_.spec)](Version step, VirtualRank rank) {
    std::vector<std::uint64_t> samples(sampler.batch_size());
    sampler.batch(sampler.cursor(step), rank, samples);
    return samples;
  };
  engine_->on_samples_used = [this](Version made, const std::vector<std::uint64_t>& samples) {
    const auto [used, is_new] = cluster_->samples_used[options_.job].emplace(made, samples);
    if (!is_new && used->second != samples)
      violated("version " + std::to_string(made) + " was made from other samples than before");
  };
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
  const Envelope& envelope = inbound.frame->envelope;
  if (envelope.job != options_.job) return violated("a message for job " + envelope.job);
  if (envelope.type == MessageType::kStatePart) {
    on_state_part(inbound);
  } else if (envelope.type == MessageType::kTraceWorker) {
    return;  // like a worker of a release without traces
  } else if (inbound.from == kHead) {
    const auto message = protocol::decode_head(inbound.frame);
    if (!message) return violated(message.error().message);
    perform(core_->on(*message, now()));
  } else {
    const auto message = protocol::decode_peer(inbound.frame);
    if (!message) return violated(message.error().message);
    perform(core_->on(*message, now()));
  }
}

void SimWorkerState::when_awake(std::function<void()> event) {
  if (frozen_) return missed_.push_back(std::move(event));
  try {
    event();
  } catch (const std::exception& thrown) {  // The toy engine has found a broken promise.
    violated(thrown.what());
    self_->quit(caf::exit_reason::unhandled_exception);
  }
}

void SimWorkerState::on_freeze(const Freeze& freeze) {
  frozen_ = freeze.on;
  if (frozen_) return;
  for (auto& event : std::exchange(missed_, {})) when_awake(std::move(event));
}

void SimWorkerState::tick() {
  self_->delayed_send(self_, kTickInterval, TickAtom::value);
  const worker::Effects effects = core_->tick(now());
  cluster_->waits_in_vain += effects.empty() ? 0 : 1;
  perform(effects);
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

// A toy version is one piece.
void SimWorkerState::perform_effect(const worker::PullState& effect) {
  pulls_ = effect.generation;
  Envelope envelope;
  envelope.job = options_.job;
  envelope.generation = effect.generation;
  envelope.sender = options_.incarnation;
  envelope.step = core_->target();
  const auto message = Msg<wire::ReadState>::build(envelope, [&](wire::ReadState::Builder b) {
    b.setNode(effect.from.node);
    b.setPath(effect.from.path);
  });
  self_->send(gateway_, Outbound{kHead, message.frame()});
}

void SimWorkerState::on_state_part(const Inbound& inbound) {
  const Envelope& envelope = inbound.frame->envelope;
  if (pulls_ != envelope.generation || core_->generation() != envelope.generation) return;
  pulls_.reset();
  const auto part = Msg<wire::StatePart>::from_frame(inbound.frame);
  auto view = part->view();
  if (view->getError().size() > 0)
    return perform(core_->on(worker::PullEvent(worker::PullFailed{
                                 envelope.generation, view->getError().cStr(), view->getGone()}),
                             now()));
  copy_ = toy_version_from({view->getData().begin(), view->getData().size()});
  perform(core_->on(worker::PullEvent(worker::StatePulled{envelope.generation, kCopy}), now()));
}

// A saved state is never given up for an older one.
void SimWorkerState::perform_effect(const worker::LoadVersion& effect) {
  const auto saved = cluster_->newest_saved(options_.job, core_->generation());
  if (!std::holds_alternative<protocol::State>(effect.from) && saved && *saved > effect.version)
    violated(options_.job + " continues from version " + std::to_string(effect.version) +
             ", and version " + std::to_string(*saved) + " is saved");
  engine_->add(effect);
}

void SimWorkerState::perform_effect(const worker::WriteVersion& effect) {
  engine_->add(effect);
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

// --- the engine: one piece at a time; its answer comes when the time of the piece is over

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
  const auto jitter = [this](Instant time) {  // 90 % to 110 %.
    return time * (900 + static_cast<Instant::rep>(random_() % 201)) / 1000;
  };
  if (const auto* summed = std::get_if<worker::PartSummed>(&event)) {
    const Instant all = summed->part.ranks.size() * cluster_->step_time_of(options_.device);
    return jitter(std::chrono::duration_cast<Instant>(all * cluster_->drag_of(options_.job)) /
                  kToyBuckets);
  }
  if (std::holds_alternative<worker::EvaluationDone>(event)) return jitter(milliseconds(30));
  if (std::holds_alternative<worker::CheckpointFinished>(event)) return jitter(milliseconds(20));
  return jitter(milliseconds(1));
}

void SimWorkerState::send_stats(Version version) {
  Envelope envelope;
  envelope.job = options_.job;
  envelope.generation = core_->generation();
  envelope.sender = options_.incarnation;
  const Instant step = cluster_->step_time_of(options_.device);
  const auto message = Msg<wire::WorkerStats>::build(envelope, [&](wire::WorkerStats::Builder b) {
    b.setVersion(version);
    b.setLocalStepSeconds(std::chrono::duration<double>(step).count());
    b.setPid(options_.incarnation.value);
    auto ests = b.initEstSeconds(core_->ranks().size());
    for (unsigned i = 0; i < ests.size(); ++i)
      ests.set(i, std::chrono::duration<double>(step).count());
  });
  self_->send(gateway_, Outbound{kHead, message.frame()});
}

caf::behavior sim_worker_actor(caf::stateful_actor<SimWorkerState>* self, SimWorkerOptions options,
                               caf::actor gateway, std::shared_ptr<SimCluster> cluster) {
  self->state.init(self, std::move(options), std::move(gateway), std::move(cluster));
  return {
      [=](const Inbound& m) { self->state.when_awake([=] { self->state.on_inbound(m); }); },
      [=](const PeerUp& m) { self->state.when_awake([=] { self->state.on_peer_up(m); }); },
      [](const PeerDown&) {},
      [=](const SimWorkerState::EngineDone& m) {
        self->state.when_awake([=] { self->state.on_engine(m); });
      },
      [=](TickAtom) { self->state.when_awake([=] { self->state.tick(); }); },
      [=](const SimWorkerState::Freeze& m) { self->state.on_freeze(m); },
  };
}

}  // namespace es::test
