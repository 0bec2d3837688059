// The part of World for clients, and for nodes with their failures.
#include <caf/all.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/base/gateway/core/peer_id.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "actors/sim/shell/world_actor.h"

namespace es::actors::simulator {

void WorldState::add_nodes() {
  for (const DeviceCount& c : workload_->cluster.counts) {
    for (std::uint32_t first = 0; first < c.count; first += options_.devices_per_node) {
      const std::string name =
          c.type.name + "-" + std::to_string(first / options_.devices_per_node);
      DeviceSet devices;
      devices.add(c.type, std::min(options_.devices_per_node, c.count - first));
      for (std::uint32_t i = 0; i < devices.total(); ++i) devices_.push_back({name, c.type, i});
      const std::string rack =
          options_.nodes_per_rack == 0
              ? ""
              : "rack-" + std::to_string(nodes_.size() / options_.nodes_per_rack);
      nodes_.push_back({name, std::move(devices), rack});
      racks_[name] = rack;
      const std::uint32_t behind = (c.count - 1 - first) / options_.devices_per_node;
      nodes_.back().spot = behind < options_.spot_nodes;
      if (nodes_.back().spot) spot_nodes_.insert(name);
      if (options_.spot_nodes == 0 || nodes_.back().spot)
        failing_nodes_.push_back(nodes_.size() - 1);
    }
  }
  // Makes the two plans independent of each other.
  constexpr std::uint64_t kOtherSeed = 0x9e3779b97f4a7c15;
  if (options_.failure_hours > 0)
    failure_plan_.emplace(options_.seed, options_.failure_hours * 3600, failing_nodes_.size());
  if (options_.straggler_hours > 0)
    straggler_plan_.emplace(options_.seed ^ kOtherSeed, options_.straggler_hours * 3600,
                            devices_.size());
}

// --- Jobs.

void WorldState::plan_submission() {
  if (next_submission_ == runs_.size()) return;
  after(workload_->jobs[next_submission_].submit_s - now_s(), {Timer::kSubmit});
}

// The text of a job is its number, which admission looks up (simulation.cc).
void WorldState::submit() {
  const std::size_t index = next_submission_++;
  recorder_->submitted(index, now_s());
  const auto request = Msg<wire::SubmitJob>::build(
      {.request = index + 1},
      [&](wire::SubmitJob::Builder b) { b.setSpecToml(std::to_string(index)); });
  self_->send(head_, Inbound{kSimulatedClient, request.frame()});
  plan_submission();
}

void WorldState::on_answer(const std::shared_ptr<const Frame>& frame) {
  const auto refusal = Msg<wire::Refusal>::from_frame(frame);
  const std::uint64_t request = frame->envelope.request;
  if (const auto asked = asked_.find(request); asked != asked_.end()) {
    const auto [name, change] = asked->second;
    asked_.erase(asked);
    if (on_claim_answer(servings_.at(name), change, refusal.ok())) return;
  }
  if (const auto accepted = Msg<wire::JobAccepted>::from_frame(frame)) {
    const JobId id = accepted->view()->getJob().cStr();
    runs_[request - 1].id = id;
    run_of_job_[id] = static_cast<std::uint32_t>(request - 1);
    if (workload_->jobs[request - 1].spec.resources.max_seconds > 0) follow(request - 1);
    return;
  }
  if (const auto event = Msg<wire::JobEvent>::from_frame(frame)) {
    if (event->view()->isEnded()) on_job_ended(run_of_job_.at(frame->envelope.job));
    return;
  }
  if (const auto details = Msg<wire::JobDetails>::from_frame(frame))
    return on_job_without_devices(run_of_job_.at(frame->envelope.job), *details);
  if (!refusal) return;
  ++refused_;
  if (first_refusal_.empty()) first_refusal_ = refusal->view()->getMessage().cStr();
}

// Learns when the head ends the job because its time limit is used up. Any other end comes from
// here.
void WorldState::follow(std::size_t index) {
  constexpr std::uint64_t kFollowing = std::uint64_t{1} << 48;  // no other request has this number
  const auto request = Msg<wire::FollowJob>::build(
      {.job = runs_[index].id, .request = kFollowing + index}, [](wire::FollowJob::Builder) {});
  self_->send(head_, Inbound{kSimulatedClient, request.frame()});
}

void WorldState::on_job_ended(std::size_t index) {
  Run& run = runs_[index];
  if (std::exchange(run.is_over, true)) return;
  ++finished_;
  recorder_->timed_out(index, now_s());
  if (run.workers.empty()) forget(run);
}

// A job with a budget has no process any more: it is suspended, or paused because its budget is
// used up.
void WorldState::ask_whether_paused(std::size_t index) {
  const auto request = Msg<wire::DescribeJob>::build(
      {.job = runs_[index].id, .request = next_request_++}, [](wire::DescribeJob::Builder) {});
  self_->send(head_, Inbound{kSimulatedClient, request.frame()});
}

// The world does not raise the budget of a job, so a paused one does not go on.
void WorldState::on_job_without_devices(std::size_t index, const Msg<wire::JobDetails>& details) {
  Run& run = runs_[index];
  if (run.is_over || details.view()->getInfo().getState() != state_name(JobState::kPaused)) return;
  run.is_over = true;
  ++finished_;
  recorder_->over_budget(index, now_s());
  const auto cancel = Msg<wire::CancelJob>::build({.job = run.id, .request = next_request_++},
                                                  [](wire::CancelJob::Builder) {});
  self_->send(head_, Inbound{kSimulatedClient, cancel.frame()});
  forget(run);
}

// --- Claims.

void WorldState::plan_claim() {
  if (next_claim_ == options_.claims.size()) return;
  after(options_.claims[next_claim_].time_s - now_s(), {Timer::kClaim});
}

void WorldState::claim() {
  const store::TraceClaim& claim = options_.claims[next_claim_++];
  if (claim.until_s > 0) {
    reserve(claim);
    return plan_claim();
  }
  Serving& serving = servings_[claim.name];
  serving.wanted = 0;
  // The type of a claim cannot change. With `wanted` = 0 the old claim is released first, if there
  // is one.
  if (serving.type != claim.type) ask_for(claim.name);
  serving.type = claim.type;
  serving.wanted = claim.count;
  ask_for(claim.name);
  plan_claim();
}

// The dates of this head begin at 0 and stand still, so the end of the reservation is a duration.
void WorldState::reserve(const store::TraceClaim& claim) {
  const auto request = Msg<wire::ReserveDevices>::build(
      {.request = next_request_++}, [&](wire::ReserveDevices::Builder b) {
        b.setName(claim.name);
        b.setDeviceType(claim.type);
        b.setCount(claim.count);
        b.setUntilUnixMs(static_cast<std::uint64_t>(std::llround((claim.until_s - now_s()) * 1e3)));
        b.setQueue(claim.queue);
      });
  self_->send(head_, Inbound{kSimulatedClient, request.frame()});
}

// Requests the change from what the claim has to what it wants.
void WorldState::ask_for(const std::string& name) {
  Serving& serving = servings_.at(name);
  serving.waits = false;
  // The answer may take time, and another change may be due before it arrives. `has` therefore
  // counts the request as granted, and a refusal takes it back (on_claim_answer).
  const std::uint32_t before = std::exchange(serving.has, serving.wanted);
  if (serving.has == before) return;
  const ::es::Envelope envelope{.request = next_request_++};
  asked_[envelope.request] = {name, static_cast<int>(serving.has) - static_cast<int>(before)};
  const auto send = [&](const auto& message) {
    self_->send(head_, Inbound{kSimulatedClient, message.frame()});
  };
  if (serving.has == 0)
    return send(Msg<wire::ReleaseClaim>::build(envelope, [&](auto b) { b.setName(name); }));
  send(Msg<wire::ClaimDevices>::build(envelope, [&](wire::ClaimDevices::Builder b) {
    b.setName(name);
    if (before == 0) b.setDeviceType(serving.type);
    b.setCount(serving.has);
  }));
}

// Returns false if the request was refused for a reason other than absent nodes.
bool WorldState::on_claim_answer(Serving& serving, int change, bool refused) {
  if (!refused) {
    recorder_->claimed(change, now_s());
    return true;
  }
  serving.has -= change;
  serving.waits = !lost_nodes_.empty();
  return serving.waits;
}

// --- Nodes.

void WorldState::node_hello(std::size_t node) {
  const Node& n = nodes_[node];
  if (!options_.hides_places && (!n.rack.empty() || options_.island_devices > 0 || n.spot)) {
    const auto place = Msg<wire::NodePlace>::build({}, [&](wire::NodePlace::Builder b) {
      b.setRack(n.rack);
      b.setIslandDevices(options_.island_devices);
      b.setSpot(n.spot);
    });
    self_->send(head_, Inbound{node_peer(n.name), place.frame()});
  }
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

// Nodes fail only while there is work.
void WorldState::plan_failure() {
  if (!failure_plan_ || finished_ == runs_.size()) return;
  const Mishaps::Mishap next = failure_plan_->next();
  after(next.after_s, {Timer::kFail, failing_nodes_[next.subject]});
}

void WorldState::fail_node(std::size_t node) {
  plan_failure();
  const std::string& name = nodes_[node].name;
  // The node is away already, so nothing happens. The intervals between failures do not depend on
  // this.
  if (lost_nodes_.contains(name) || !announced_.insert(name).second) return;
  if (options_.notice_s == 0) return lose_node(node);
  const auto notice =
      Msg<wire::VacateNode>::build({.request = next_request_++}, [&](wire::VacateNode::Builder b) {
        b.setNode(name);
        b.setSeconds(options_.notice_s);
      });
  self_->send(head_, Inbound{kSimulatedClient, notice.frame()});
  after(options_.notice_s, {Timer::kLose, node});
}

void WorldState::lose_node(std::size_t node) {
  const std::string& name = nodes_[node].name;
  announced_.erase(name);
  lost_nodes_.insert(name);
  ++failures_;
  lose_workers(name);
  self_->send(head_, PeerDown{node_peer(name)});
  after(options_.repair_s, {Timer::kRepair, node});
}

// The surviving members stand still at the last boundary. The step that was being computed is lost.
void WorldState::lose_workers(const std::string& node) {
  std::vector<Incarnation> gone;
  for (const auto& [incarnation, worker] : workers_)
    if (worker.device.node == node) gone.push_back(incarnation);
  // The order of an unordered map differs between libraries, and the history must not depend on it.
  std::sort(gone.begin(), gone.end());
  for (const Incarnation incarnation : gone) {
    Run& run = run_of(workers_.at(incarnation));
    if (run.steps) {
      const double under_way_s = now_s() - run.since_s - steps_done(run, now_s()) * run.step_s;
      recorder_->lost(index_of(run), std::max(0.0, under_way_s));
      stand_still(run, version_at(run, now_s()));
    }
    end_worker(incarnation, -1, false);
  }
}

void WorldState::repair_node(std::size_t node) {
  lost_nodes_.erase(nodes_[node].name);
  node_hello(node);
  for (const auto& [name, serving] : servings_)
    if (serving.waits) ask_for(name);
}

}  // namespace es::actors::simulator
