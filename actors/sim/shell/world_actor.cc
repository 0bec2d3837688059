#include "actors/sim/shell/world_actor.h"

#include <caf/all.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "actors/base/gateway/core/peer_id.h"
#include "actors/base/protocol/core/instant.h"
#include "actors/base/protocol/wire/codec.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "proto/base/check_ok.h"

namespace es::actors::simulator {
namespace {

using namespace protocol;

std::optional<Incarnation> incarnation_of(const PeerId& peer) {
  static const std::string kPrefix = "worker/";
  if (!peer.starts_with(kPrefix)) return std::nullopt;
  Incarnation incarnation;
  std::from_chars(peer.data() + kPrefix.size(), peer.data() + peer.size(), incarnation.value);
  return incarnation;
}

}  // namespace

void WorldState::init(caf::stateful_actor<WorldState>* self, const Workload* workload,
                      WorldOptions options, Recorder* recorder) {
  self_ = self;
  workload_ = workload;
  options_ = std::move(options);
  recorder_ = recorder;
  runs_.resize(workload_->jobs.size());
  // The requests with the numbers 1 to the number of jobs submit them. Those of claims follow, so
  // an answer shows to which of the two it belongs.
  next_request_ = runs_.size() + 1;
  add_nodes();
}

void WorldState::begin(const BeginWorld& begin) {
  head_ = begin.head;
  for (std::size_t node = 0; node < nodes_.size(); ++node) node_hello(node);
  plan_claim();
  plan_submission();
  plan_failure();
  plan_straggler();
}

double WorldState::now_s() const {
  return in_seconds(self_->clock().now().time_since_epoch());
}

void WorldState::after(double seconds, Due due) {
  const auto delay = std::chrono::nanoseconds(std::llround(std::max(0.0, seconds) * 1e9));
  self_->delayed_send(self_, delay, due);
}

bool WorldState::is_idle() const {
  return next_submission_ == runs_.size() && next_claim_ == options_.claims.size() &&
         workers_.empty();
}

// --- Processes.

void WorldState::start_worker(const Outbound& outbound) {
  const auto start = Msg<wire::StartWorker>::from_frame(outbound.frame);
  auto view = start->view();
  wire::StartWorker::Reader r = *view;
  const Incarnation incarnation{r.getIncarnation()};
  const DeviceId device = device_from(r.getDevice());
  if (lost_nodes_.contains(device.node)) return;  // the head is about to hear of the loss
  const std::uint32_t index = run_of_job_.at(outbound.frame->envelope.job);
  Run& run = runs_[index];
  Worker& worker = workers_[incarnation];
  worker.run = index;
  worker.device = device;
  run.workers.insert(incarnation);
  run.actor = caf::actor_cast<caf::actor>(self_->current_sender());
  if (run.first_given_s < 0) run.first_given_s = now_s();
  recorder_->held(index, worker.device.type, 1, now_s(), price_of(device));
  // The start of the first processes of a job costs start_s. Later processes start while the others
  // train, which the rescale cost covers.
  const double ready_s = run.has_run ? now_s() : run.first_given_s + options_.start_s;
  if (ready_s <= now_s()) return say_hello(incarnation);
  after(ready_s - now_s(), {Timer::kHello, incarnation.value});
}

void WorldState::say_hello(Incarnation incarnation) {
  const auto at = workers_.find(incarnation);
  if (at == workers_.end()) return;
  const std::string& node = at->second.device.node;
  tell(run_of(at->second), Hello{{{}, incarnation}, at->second.device, node, node});
}

void WorldState::end_worker(Incarnation incarnation, int exit_code, bool tell) {
  const auto at = workers_.find(incarnation);
  if (at == workers_.end()) return;
  Run& run = run_of(at->second);
  const DeviceId& device = at->second.device;
  recorder_->held(index_of(run), device.type, -1, now_s(), price_of(device));
  run.workers.erase(incarnation);
  const PeerId node = node_peer(device.node);
  workers_.erase(at);
  if (tell) {
    const auto exited =
        Msg<wire::WorkerExited>::build({.job = run.id}, [&](wire::WorkerExited::Builder b) {
          b.setIncarnation(incarnation.value);
          b.setExitCode(exit_code);
        });
    self_->send(run.actor, Inbound{node, exited.frame()});
  }
  if (!run.workers.empty()) return;
  if (run.is_over) return forget(run);
  if (workload_->jobs[index_of(run)].spec.resources.budget > 0) ask_whether_paused(index_of(run));
}

double WorldState::price_of(const DeviceId& device) const {
  const bool on_spot_node = !options_.hides_places && spot_nodes_.contains(device.node);
  return options_.prices.of(device.type, on_spot_node);
}

// Releases the memory of a job that is over and has no worker.
void WorldState::forget(Run& run) {
  run.actor = {};
  run.members = {};
  run.local_s = {};
  run.checkpoint.reset();
}

void WorldState::tell(Run& run, const WorkerMessage& message) {
  self_->send(run.actor, Inbound{worker_peer(stamp_of(message).sender), encode(run.id, message)});
}

// --- Rounds.

void WorldState::on_outbound(const Outbound& outbound) {
  const Frame& frame = *outbound.frame;
  if (outbound.to == kSimulatedClient) return on_answer(outbound.frame);
  if (frame.envelope.type == MessageType::kStartWorker) return start_worker(outbound);
  if (frame.envelope.type == MessageType::kKillWorker) {
    const auto kill = Msg<wire::KillWorker>::from_frame(outbound.frame);
    return end_worker({kill->view()->getIncarnation()}, -1, true);
  }
  if (frame.envelope.type == MessageType::kFindStates)
    return find_states(outbound.to, *Msg<wire::FindStates>::from_frame(outbound.frame));
  const auto to = incarnation_of(outbound.to);
  if (!to || !is_head_message(frame.envelope.type)) return;
  if (std::exchange(decoded_.frame, outbound.frame) != outbound.frame) {
    const auto message = decode_head(outbound.frame);
    ES_CHECK_OK(message, "a message of the head");
    decoded_.message = *message;
  }
  on_head_message(*to, decoded_.message);
}

// Answers that every checkpoint can be read, as if all nodes shared one disk.
void WorldState::find_states(const PeerId& node, const Msg<wire::FindStates>& find) {
  const auto at = run_of_job_.find(find.envelope().job);
  if (at == run_of_job_.end() || !runs_[at->second].actor) return;
  const auto answer = Msg<wire::StatesFound>::build(
      {.job = find.envelope().job}, [&](wire::StatesFound::Builder b) {
        auto view = find.view();
        const auto asked = view->getStates();
        auto list = b.initStates(asked.size());
        for (unsigned i = 0; i < list.size(); ++i) {
          list[i].setState(asked[i]);
          list[i].setSight(static_cast<std::uint8_t>(protocol::Sight::kWhole));
        }
      });
  self_->send(runs_[at->second].actor, Inbound{node, answer.frame()});
}

void WorldState::on_head_message(Incarnation to, const HeadMessage& message) {
  const auto at = workers_.find(to);
  if (at == workers_.end()) return;
  Worker& worker = at->second;
  // As a real worker, it drops messages that are older than the generation that it has promised.
  if (stamp_of(message).generation < worker.generation) return;
  std::visit([&](const auto& m) { on(worker, to, m); }, message);
}

// Number of whole steps since the last Go. A timer that is due at the end of a step may fire
// slightly before it because of rounding: after months, times in seconds are exact to a few
// nanoseconds only.
double WorldState::steps_done(const Run& run, double now_s) {
  constexpr double kRoundingS = 1e-7;
  return std::floor((now_s - run.since_s) / run.step_s + std::min(0.5, kRoundingS / run.step_s));
}

Version WorldState::version_at(const Run& run, double now_s) const {
  if (!run.steps) return run.version;
  const double steps = steps_done(run, now_s);
  const Version last = workload_->jobs[index_of(run)].spec.steps;
  return std::min(last, run.version + static_cast<Version>(std::max(0.0, steps)));
}

void WorldState::stand_still(Run& run, Version version) {
  // The new epoch makes all timers of the job void that were set before.
  run.steps = run.stops = false;
  run.version = version;
  ++run.epoch;
  recorder_->stepping(index_of(run), {}, now_s());
}

void WorldState::on(Worker& worker, Incarnation to, const Prepare& message) {
  Run& run = run_of(worker);
  // The first Prepare of a round stops the whole job. Its members hold the same version at any
  // moment.
  if (run.steps) stand_still(run, version_at(run, now_s()));
  worker.generation = message.stamp.generation;
  run.checkpoint.reset();  // the head repeats the request
  protocol::Report report{{message.stamp.generation, to}, std::nullopt};
  if (worker.has_state) report.version = run.version;
  tell(run, report);
}

void WorldState::on(Worker& worker, Incarnation, const Install& message) {
  Run& run = run_of(worker);
  // The Install of the other members is the same.
  if (run.generation == message.stamp.generation) return;
  run.generation = message.stamp.generation;
  run.members = message.members;
  run.target = message.target;
  run.pause_at = message.pause_at;
  lose_work(run, message.target);
  ++run.epoch;
  const Due ready{Timer::kReady, index_of(run), run.epoch};
  const bool keeps_state =
      std::ranges::any_of(run.workers, [&](Incarnation w) { return workers_.at(w).has_state; });
  const double cost_s = keeps_state ? options_.rescale_s : options_.suspend_cost_s();
  after(run.has_run ? cost_s : 0, ready);
}

void WorldState::become_ready(Run& run) {
  for (const Member& member : run.members)
    if (workers_.contains(member.incarnation))
      tell(run, Ready{{run.generation, member.incarnation}, run.target});
}

// The steps beyond `target` have to be done again, because no worker that holds them is left.
void WorldState::lose_work(Run& run, Version target) {
  if (target >= run.version) return;
  recorder_->lost(index_of(run), static_cast<double>(run.version - target) * run.step_s);
  run.version = target;
}

void WorldState::on(Worker& worker, Incarnation, const Go& message) {
  Run& run = run_of(worker);
  if (run.steps || message.stamp.generation != run.generation) return;
  // Workers without ranks are released after Go. They hold an old version and must not report it in
  // a later round.
  for (const Incarnation incarnation : run.workers) workers_.at(incarnation).has_state = false;
  DeviceSet devices;
  for (const Member& member : run.members) {
    const auto at = workers_.find(member.incarnation);
    if (at == workers_.end()) continue;
    at->second.has_state = true;
    devices.add(at->second.device.type, 1);
  }
  run.has_run = run.steps = true;
  run.version = run.reported = run.target;
  set_pace(run);
  recorder_->stepping(index_of(run), devices, now_s(), spread_of(run));
  // After an unplanned round the head does not know yet the version of the job.
  if (run.version > run.told) commit(run, run.members.front().incarnation, run.version);
  plan_steps(run);
  if (run.pause_at) stop_after(run, static_cast<double>(*run.pause_at - run.version));
}

// Plans all timers of the job from now on, at its present speed.
void WorldState::plan_steps(Run& run) {
  run.since_s = now_s();
  ++run.epoch;
  const Version last = workload_->jobs[index_of(run)].spec.steps;
  const double left = static_cast<double>(last - run.version);
  after(left * run.step_s, {Timer::kFinish, index_of(run), run.epoch});
  run.reports = 0;
  if (options_.is_measured()) plan_report(run);
  plan_checkpoint(run);
}

void WorldState::on(Worker& worker, Incarnation to, const protocol::Drain& message) {
  Run& run = run_of(worker);
  if (!run.steps) return tell(run, Drained{{message.stamp.generation, to}, run.version});
  // Members stop when the step ends that is being computed now.
  stop_after(run, steps_done(run, now_s()) + 1);
}

// The members stop when they have done this many steps since Go.
void WorldState::stop_after(Run& run, double steps) {
  if (std::exchange(run.stops, true)) return;  // one timer for all members
  after(run.since_s + steps * run.step_s - now_s(), {Timer::kBoundary, index_of(run), run.epoch});
}

void WorldState::reach_boundary(Run& run) {
  const Version version = version_at(run, now_s());
  if (version == workload_->jobs[index_of(run)].spec.steps) return;  // the job finishes now
  stand_still(run, version);
  if (version > run.told) commit(run, run.members.front().incarnation, version);
  for (const Member& member : run.members)
    if (workers_.contains(member.incarnation))
      tell(run, Drained{{run.generation, member.incarnation}, version});
}

void WorldState::finish(Run& run) {
  const std::size_t index = index_of(run);
  const Version last = workload_->jobs[index].spec.steps;
  stand_still(run, last);
  run.is_over = true;
  ++finished_;
  recorder_->ended(index, now_s());
  write_checkpoint(run);
  tell(run, Evaluated{{run.generation, run.members.front().incarnation},
                      last,
                      std::make_shared<const std::vector<std::byte>>()});
  for (const Member& member : run.members) commit(run, member.incarnation, last);
}

// The digest of a version is a function of the job and the version, as equal bits of real workers
// would be.
void WorldState::commit(Run& run, Incarnation by, Version version) {
  run.told = std::max(run.told, version);
  LedgerLine line{
      .version = version, .loss_bits = {}, .params = {index_of(run), version}, .state = {}};
  if (version == workload_->jobs[index_of(run)].spec.steps)
    line.state = Digest{version, index_of(run)};
  tell(run, Committed{{run.generation, by}, std::move(line)});
}

// A checkpoint on demand is written while the job stands still for it. One of the job's own series
// is written at its version or later.
void WorldState::on(Worker& worker, Incarnation, const WriteCheckpoint& message) {
  Run& run = run_of(worker);
  if (message.periodic && version_at(run, now_s()) < message.at) {
    run.checkpoint = message;
    return plan_checkpoint(run);
  }
  const auto before = std::exchange(run.checkpoint, message);
  write_checkpoint(run);
  run.checkpoint = before;
}

void WorldState::on_due(const Due& due) {
  switch (due.timer) {
    case Timer::kSubmit:
      return submit();
    case Timer::kClaim:
      return claim();
    case Timer::kFail:
      return fail_node(due.subject);
    case Timer::kLose:
      return lose_node(due.subject);
    case Timer::kRepair:
      return repair_node(due.subject);
    case Timer::kSlow:
      return set_slow(due.subject, true);
    case Timer::kUsual:
      return set_slow(due.subject, false);
    case Timer::kHello:
      return say_hello({due.subject});
    default:
      break;
  }
  Run& run = runs_[due.subject];
  if (due.epoch != run.epoch) return;
  if (due.timer == Timer::kReady) become_ready(run);
  if (due.timer == Timer::kBoundary) reach_boundary(run);
  if (due.timer == Timer::kCheckpoint) write_checkpoint(run);
  if (due.timer == Timer::kReport) report(run);
  if (due.timer == Timer::kPace) change_pace(run);
  if (due.timer == Timer::kFinish) finish(run);
}

caf::behavior world_actor(caf::stateful_actor<WorldState>* self, const Workload* workload,
                          WorldOptions options, Recorder* recorder) {
  self->state.init(self, workload, std::move(options), recorder);
  return {
      [=](const BeginWorld& begin) { self->state.begin(begin); },
      [=](const Outbound& outbound) { self->state.on_outbound(outbound); },
      [=](const WorldState::Due& due) { self->state.on_due(due); },
  };
}

}  // namespace es::actors::simulator
