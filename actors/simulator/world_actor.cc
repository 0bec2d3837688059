#include "actors/simulator/world_actor.h"

#include <caf/all.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "actors/common/wire_devices.h"
#include "actors/intra_job/durations.h"
#include "actors/node_agent/node_agent_actor.h"
#include "actors/protocol/codec.h"
#include "actors/worker/worker_actor.h"

namespace es::actors::simulator {
namespace {

using namespace protocol;

constexpr const char* kClient = "client/simulation";
// Requests with a larger number are not submissions.
constexpr std::uint64_t kClaimRequest = std::uint64_t{1} << 40;

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
  random_.seed(options_.seed);
  runs_.resize(workload_->jobs.size());
  for (const DeviceCount& c : workload_->cluster.counts) {
    for (std::uint32_t first = 0; first < c.count; first += options_.devices_per_node) {
      DeviceSet devices;
      devices.add(c.type, std::min(options_.devices_per_node, c.count - first));
      nodes_.push_back(
          {c.type.name + "-" + std::to_string(first / options_.devices_per_node), devices});
    }
  }
}

void WorldState::begin(const BeginWorld& begin) {
  head_ = begin.head;
  for (std::size_t node = 0; node < nodes_.size(); ++node) node_hello(node);
  plan_claim();
  plan_submission();
  plan_failure();
}

double WorldState::now_s() const {
  return in_seconds(self_->clock().now().time_since_epoch());
}

void WorldState::after(double seconds, Due due) {
  const auto delay = std::chrono::nanoseconds(std::llround(std::max(0.0, seconds) * 1e9));
  self_->delayed_send(self_, delay, due);
}

double WorldState::random_unit() {
  return static_cast<double>(random_() >> 11) * 0x1p-53;
}

// The same for a device in every run with this seed.
double WorldState::slowness(const DeviceId& device) const {
  if (options_.straggler_share <= 0) return 1;
  const Digest digest = digest_of(device.text() + "#" + std::to_string(options_.seed));
  const bool slow = static_cast<double>(digest.low >> 11) * 0x1p-53 < options_.straggler_share;
  return slow ? options_.straggler_slowness : 1;
}

bool WorldState::is_idle() const {
  return next_submission_ == runs_.size() && next_claim_ == options_.claims.size() &&
         workers_.empty();
}

// --- clients and nodes

void WorldState::plan_submission() {
  if (next_submission_ == runs_.size()) return;
  after(workload_->jobs[next_submission_].submit_s - now_s(), {Timer::kSubmit});
}

// The text of a job is its number: admission looks it up (simulation.cc).
void WorldState::submit() {
  const std::size_t index = next_submission_++;
  recorder_->submitted(index, now_s());
  const auto request = Msg<wire::SubmitJob>::build(
      {.request = index + 1},
      [&](wire::SubmitJob::Builder b) { b.setSpecToml(std::to_string(index)); });
  self_->send(head_, Inbound{kClient, request.frame()});
  plan_submission();
}

void WorldState::plan_claim() {
  if (next_claim_ == options_.claims.size()) return;
  after(options_.claims[next_claim_].time_s - now_s(), {Timer::kClaim});
}

void WorldState::claim() {
  const store::TraceClaim& claim = options_.claims[next_claim_++];
  std::uint32_t& has = claims_[claim.name];
  const Head head{.request = kClaimRequest + next_claim_};
  if (has > 0)
    self_->send(head_, Inbound{kClient, Msg<wire::ReleaseClaim>::build(head, [&](auto b) {
                                          b.setName(claim.name);
                                        }).frame()});
  if (claim.count > 0)
    self_->send(head_, Inbound{kClient, Msg<wire::ClaimDevices>::build(head, [&](auto b) {
                                          b.setName(claim.name);
                                          b.setDeviceType(claim.type);
                                          b.setCount(claim.count);
                                        }).frame()});
  recorder_->claimed(static_cast<int>(claim.count) - static_cast<int>(has), now_s());
  has = claim.count;
  plan_claim();
}

void WorldState::on_answer(const std::shared_ptr<const Frame>& frame) {
  const std::uint64_t request = frame->head.request;
  const bool is_job = request > 0 && request <= runs_.size();
  if (const auto accepted = Msg<wire::JobAccepted>::from_frame(frame); accepted && is_job) {
    const JobId id = accepted->view()->getJob().cStr();
    runs_[request - 1].id = id;
    run_of_job_[id] = static_cast<std::uint32_t>(request - 1);
    return;
  }
  const auto refusal = Msg<wire::Refusal>::from_frame(frame);
  if (!refusal) return;
  ++refused_;
  if (first_refusal_.empty()) first_refusal_ = refusal->view()->getMessage().cStr();
}

void WorldState::node_hello(std::size_t node) {
  Node& n = nodes_[node];
  n.lost = false;
  const auto hello = Msg<wire::NodeHello>::build({}, [&](wire::NodeHello::Builder b) {
    b.setName(n.name);
    b.setHostId(n.name);
    auto devices = b.initDevices(n.devices.total());
    unsigned at = 0;
    for (const DeviceCount& c : n.devices.counts)
      for (std::uint32_t i = 0; i < c.count; ++i) put(devices[at++], {n.name, c.type, i});
  });
  self_->send(head_, Inbound{node_peer(n.name), hello.frame()});
}

// Failures come while there is work: exponential, at the rate of all nodes together.
void WorldState::plan_failure() {
  if (options_.failure_hours <= 0 || finished_ == runs_.size()) return;
  const double mean_s = options_.failure_hours * 3600 / static_cast<double>(nodes_.size());
  after(-mean_s * std::log(1 - random_unit()), {Timer::kFail});
}

void WorldState::fail_node() {
  const std::size_t index = random_() % nodes_.size();
  Node& node = nodes_[index];
  if (!node.lost) {
    node.lost = true;
    ++failures_;
    std::vector<Incarnation> gone;
    for (const auto& [incarnation, worker] : workers_)
      if (worker.device.node == node.name) gone.push_back(incarnation);
    std::sort(gone.begin(), gone.end());
    for (const Incarnation incarnation : gone) {
      Run& run = run_of(workers_.at(incarnation));
      if (run.steps) stand_still(run, version_at(run, now_s()));
      end_worker(incarnation, -1, false);
    }
    self_->send(head_, PeerDown{node_peer(node.name)});
    after(options_.repair_s, {Timer::kRepair, index});
  }
  plan_failure();
}

// --- processes

void WorldState::start_worker(const Outbound& outbound) {
  const auto start = Msg<wire::StartWorker>::from_frame(outbound.frame);
  auto view = start->view();
  wire::StartWorker::Reader r = *view;
  const Incarnation incarnation{r.getIncarnation()};
  const std::uint32_t index = run_of_job_.at(outbound.frame->head.job);
  Run& run = runs_[index];
  Worker& worker = workers_[incarnation];
  worker.run = index;
  worker.device = device_from(r.getDevice());
  run.workers.insert(incarnation);
  run.actor = caf::actor_cast<caf::actor>(self_->current_sender());
  if (run.first_given_s < 0) run.first_given_s = now_s();
  recorder_->held(index, worker.device.type, 1, now_s());
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
  recorder_->held(index_of(run), at->second.device.type, -1, now_s());
  run.workers.erase(incarnation);
  const PeerId node = node_peer(at->second.device.node);
  workers_.erase(at);
  if (!tell) return;
  const auto exited =
      Msg<wire::WorkerExited>::build({.job = run.id}, [&](wire::WorkerExited::Builder b) {
        b.setIncarnation(incarnation.value);
        b.setExitCode(exit_code);
      });
  self_->send(run.actor, Inbound{node, exited.frame()});
}

void WorldState::tell(Run& run, const WorkerMessage& message) {
  self_->send(run.actor, Inbound{worker_peer(stamp_of(message).sender), encode(run.id, message)});
}

// --- rounds

void WorldState::on_outbound(const Outbound& outbound) {
  const Frame& frame = *outbound.frame;
  if (outbound.to == kClient) return on_answer(outbound.frame);
  if (frame.head.type == MessageType::kStartWorker) return start_worker(outbound);
  if (auto kill = Msg<wire::KillWorker>::from_frame(outbound.frame))
    return end_worker({kill->view()->getIncarnation()}, -1, true);
  const auto to = incarnation_of(outbound.to);
  if (!to || !is_head_message(frame.head.type)) return;
  const auto message = decode_head(outbound.frame);
  ES_CHECK(message.ok());
  on_head_message(*to, *message);
}

void WorldState::on_head_message(Incarnation to, const HeadMessage& message) {
  const auto at = workers_.find(to);
  if (at == workers_.end()) return;
  Worker& worker = at->second;
  if (stamp_of(message).generation < worker.generation) return;
  std::visit([&](const auto& m) { on(worker, to, m); }, message);
}

// Whole steps since the last Go. A timer that is due at a step's end may come a rounding of time
// before it: months in seconds are as exact as a few nanoseconds.
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
  run.steps = false;
  run.version = version;
  ++run.epoch;
  recorder_->stepping(index_of(run), {}, now_s());
}

void WorldState::on(Worker& worker, Incarnation to, const Prepare& message) {
  Run& run = run_of(worker);
  if (run.steps) stand_still(run, version_at(run, now_s()));
  worker.generation = message.stamp.generation;
  Report report{{message.stamp.generation, to}, std::nullopt};
  if (worker.has_state) report.version = run.version;
  tell(run, report);
}

void WorldState::on(Worker& worker, Incarnation, const Install& message) {
  Run& run = run_of(worker);
  if (run.generation == message.stamp.generation) return;  // the others' is the same
  run.generation = message.stamp.generation;
  run.members = message.members;
  run.target = message.target;
  ++run.epoch;
  const Due ready{Timer::kReady, index_of(run), run.epoch};
  if (run.has_run && options_.rescale_s > 0) return after(options_.rescale_s, ready);
  after(0, ready);
}

void WorldState::become_ready(Run& run) {
  for (const Member& member : run.members)
    if (workers_.contains(member.incarnation))
      tell(run, Ready{{run.generation, member.incarnation}, run.target});
}

void WorldState::on(Worker& worker, Incarnation, const Go& message) {
  Run& run = run_of(worker);
  if (run.steps || message.stamp.generation != run.generation) return;
  const WorkJob& job = workload_->jobs[index_of(run)];
  for (const Incarnation incarnation : run.workers) workers_.at(incarnation).has_state = false;
  DeviceSet devices;
  run.step_s = 0;
  for (const Member& member : run.members) {
    const auto at = workers_.find(member.incarnation);
    if (at == workers_.end()) continue;
    at->second.has_state = true;
    const DeviceId& device = at->second.device;
    devices.add(device.type, 1);
    const double local_s = slowness(device) / job.capabilities.at(device.type);
    run.step_s = std::max(run.step_s, member.ranks.size() * local_s);
  }
  run.has_run = run.steps = true;
  run.version = run.target;
  run.since_s = now_s();
  ++run.epoch;
  recorder_->stepping(index_of(run), devices, now_s());
  // After an unplanned round the head has not heard yet how far the job had come.
  if (run.version > run.told) commit(run, run.members.front().incarnation, run.version);
  const double left = static_cast<double>(job.spec.steps - run.version);
  after(left * run.step_s, {Timer::kFinish, index_of(run), run.epoch});
}

void WorldState::on(Worker& worker, Incarnation to, const protocol::Drain& message) {
  Run& run = run_of(worker);
  if (!run.steps) return tell(run, Drained{{message.stamp.generation, to}, run.version});
  if (to != run.members.front().incarnation) return;  // one timer for all
  const double done = steps_done(run, now_s()) + 1;
  after(run.since_s + done * run.step_s - now_s(), {Timer::kBoundary, index_of(run), run.epoch});
}

void WorldState::reach_boundary(Run& run) {
  const Version version = version_at(run, now_s());
  if (version == workload_->jobs[index_of(run)].spec.steps) return;  // it finishes now
  stand_still(run, version);
  commit(run, run.members.front().incarnation, version);
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
  tell(run, Evaluated{{run.generation, run.members.front().incarnation},
                      last,
                      std::make_shared<const std::vector<std::byte>>()});
  for (const Member& member : run.members) commit(run, member.incarnation, last);
}

// Bits are what they are meant to be: a function of job and version.
void WorldState::commit(Run& run, Incarnation by, Version version) {
  run.told = std::max(run.told, version);
  LedgerLine line{
      .version = version, .loss_bits = {}, .params = {index_of(run), version}, .state = {}};
  if (version == workload_->jobs[index_of(run)].spec.steps)
    line.state = Digest{version, index_of(run)};
  tell(run, Committed{{run.generation, by}, std::move(line)});
}

void WorldState::on(Worker& worker, Incarnation to, const WriteCheckpoint& message) {
  Run& run = run_of(worker);
  tell(run, CheckpointWritten{.stamp = {message.stamp.generation, to},
                              .request = message.request,
                              .path = message.directory,
                              .version = run.version,
                              .digests = {},
                              .error = {}});
}

void WorldState::on_due(const Due& due) {
  switch (due.timer) {
    case Timer::kSubmit:
      return submit();
    case Timer::kClaim:
      return claim();
    case Timer::kFail:
      return fail_node();
    case Timer::kRepair:
      return node_hello(due.subject);
    case Timer::kHello:
      return say_hello({due.subject});
    default:
      break;
  }
  Run& run = runs_[due.subject];
  if (due.epoch != run.epoch) return;
  if (due.timer == Timer::kReady) become_ready(run);
  if (due.timer == Timer::kBoundary) reach_boundary(run);
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
