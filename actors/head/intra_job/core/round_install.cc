// Rounds: the source, the target and the placement of a round, and the node from which each worker
// loads a saved state.
#include <algorithm>
#include <map>
#include <utility>

#include "actors/head/intra_job/core/rounds.h"
#include "proto/base/check.h"

namespace es::actors::intra_job {

using namespace protocol;

std::optional<Rounds::Holder> Rounds::newest_reported() const {
  if (sharded()) {
    const auto found = find_shards(reports_, context_.config.bucket_count);
    if (!found || found->lost) return std::nullopt;
    return Holder{peer(found->rest), found->target};
  }
  std::optional<Version> newest;
  Incarnation holder;
  // Any holder of the newest version would do. The lowest incarnation is chosen, so that equal
  // events give an equal choice.
  for (const auto& [incarnation, report] : reports_) {
    if (report.version && (!newest || *report.version > *newest)) {
      newest = report.version;
      holder = incarnation;
    }
  }
  if (!newest) return std::nullopt;
  return Holder{peer(holder), *newest};
}

FromPeer Rounds::peer(Incarnation incarnation) const {
  const Worker& worker = context_.fleet.workers().at(incarnation);
  return {worker.incarnation, worker.address, worker.host_id};
}

// The survivors hold versions of which no whole one can be put together. What they hold is worth
// nothing, and the job goes back to its newest saved state.
void Rounds::give_up_lost_shards() {
  if (!sharded()) return;
  const auto found = find_shards(reports_, context_.config.bucket_count);
  if (!found || !found->lost) return;
  context_.warn("both workers that held the optimizer state of shard " +
                std::to_string(*found->lost) +
                " are lost: the job goes back to its newest saved state");
  for (auto& [incarnation, report] : reports_) {
    report = Report{.stamp = report.stamp, .version = std::nullopt};
    context_.fleet.find(incarnation)->version.reset();
  }
}

// Returns whether without this worker no whole version could be put together. While members train,
// two of them hold every shard.
bool Rounds::is_last_holder(const Worker& worker) const {
  if (!sharded() || context_.phase != Phase::kInstalling) return false;
  std::map<Incarnation, Report> others = reports_;
  others.erase(worker.incarnation);
  const auto found = find_shards(others, context_.config.bucket_count);
  return !found || found->lost;
}

std::vector<Holders> Rounds::holders() const {
  if (!sharded()) return {};
  std::vector<ShardMember> members;
  for (const Member& member : context_.members)
    members.push_back({member.incarnation, context_.fleet.find(member.incarnation)->device.node});
  std::vector<std::set<Incarnation>> have(context_.config.bucket_count);
  for (const auto& [incarnation, report] : reports_)
    for (const std::uint32_t bucket : report.held) have[bucket].insert(incarnation);
  return assign_shards(context_.config.shards, members, have);
}

// REQUIRES: all known workers have reported. If no worker holds a version, this waits until the
// nodes have reported what they can read, or releases all devices.
void Rounds::install() {
  loads_.reset();
  give_up_lost_shards();
  const auto newest = newest_reported();
  loads_saved_ = !newest;
  if (newest) return install(newest->first, newest->second);
  RestartChoice next = parts_.restart.choose();
  // The phase stays Preparing. continue_if_known() comes back here when an answer arrives.
  if (next.kind == RestartChoice::Kind::kAsking) return;
  if (next.kind == RestartChoice::Kind::kAway || next.kind == RestartChoice::Kind::kLost)
    return stand_down();
  if (next.kind == RestartChoice::Kind::kReadable) parts_.restart.give_up_newer_than(next.state);
  const auto [source, target] = parts_.restart.source();
  if (target < parts_.progress.through())
    context_.warn("no worker holds the state of the job: it continues from version " +
                  std::to_string(target));
  if (next.kind == RestartChoice::Kind::kReadable) loads_ = std::move(next);
  install(source, target);
}

// The processes hold no version, and there is nothing that they could load now.
void Rounds::stand_down() {
  context_.show_state(JobState::kQueued);
  release_everybody();
}

void Rounds::install(Source source, Version target) {
  context_.phase = Phase::kInstalling;
  target_ = target;
  parts_.progress.set_version(target);
  // Warm workers are left out: they have promised no generation and reported no version. They join
  // in the next round.
  const Fleet::Choice choice = context_.fleet.choose(parts_.demand.at(target), false);
  const std::set<Incarnation> chosen =
      parts_.demand.of_one_type(choice.complete ? choice.workers : context_.fleet.all_available());
  if (!parts_.demand.bind_to_type(chosen)) return stand_down();
  place(chosen);
  enter_stage(choice.complete);
  send_install(std::move(source));
}

// A stage begins with exactly its devices. Until they are complete, the workers that are present
// hold the state and wait: they pause at the target, before any step. Within a stage a job that has
// lost a worker continues with the others.
void Rounds::enter_stage(bool complete) {
  pause_at_.reset();
  if (context_.staged()) {
    parts_.demand.enter_stage_of(target_);
    const std::size_t stage = parts_.demand.stage();
    waits_for_stage_ = !complete && target_ == context_.schedule.begin(stage);
    pause_at_ = context_.schedule.end(stage);
  }
  if (waits_for_stage_ || holds_) pause_at_ = target_;
}

void Rounds::place(const std::set<Incarnation>& chosen) {
  std::vector<DeviceId> devices;
  context_.placement = {};
  for (auto& [incarnation, worker] : context_.fleet.workers()) {
    worker.placed = chosen.contains(incarnation);
    if (!worker.placed) continue;
    devices.push_back(worker.device);
    context_.placement.add(worker.device.type, 1);
  }
  const std::vector<RankRange> ranges =
      context_.services.assign_ranks(context_.config.spec.max_p, devices);
  ES_CHECK(ranges.size() == chosen.size());
  auto range = ranges.begin();
  for (const Incarnation incarnation : chosen) {  // ascending by incarnation, like `devices`
    const Worker& worker = *context_.fleet.find(incarnation);
    context_.members.push_back(
        {incarnation, *range++, worker.address, worker.host_id, worker.channel});
  }
  // All workers compute the owners of the buckets from this order (bucket b belongs to member b mod
  // n).
  std::ranges::sort(context_.members, {}, [](const Member& m) { return m.ranks.begin; });
}

void Rounds::send_install(Source source) {
  Install install{.stamp = context_.stamp(),
                  .target = target_,
                  .members = context_.members,
                  .source = std::move(source),
                  .bucket_count = context_.config.bucket_count,
                  .last_version = context_.last_version,
                  .pause_at = pause_at_,
                  .evaluated_through = parts_.progress.evaluated_through(),
                  .acknowledged_through = parts_.progress.through(),
                  .decisions = decisions_text(),
                  .holders = holders()};
  if (sharded() && std::holds_alternative<FromPeer>(install.source)) {
    const auto found = find_shards(reports_, context_.config.bucket_count);
    for (const Incarnation holder : found->by_bucket) install.shard_sources.push_back(peer(holder));
  }
  // By the node from which the receiver loads the state; "" for its own one, or if none is loaded.
  std::map<std::string, JobContext::SharedMessage> messages;
  for (const Incarnation incarnation : context_.fleet.in_phase(Worker::Phase::kKnown)) {
    const Worker& worker = *context_.fleet.find(incarnation);
    std::string node = loads_ ? source_node(worker) : "";
    if (node == worker.device.node) node.clear();
    JobContext::SharedMessage& message = messages[node];
    if (!message) {
      if (loads_) install.source = FromCheckpoint{loads_->state.path, node};
      message = std::make_shared<const HeadMessage>(install);
    }
    context_.send(worker, message);
  }
}

std::string Rounds::decisions_text() const {
  return decides(context_.config.spec)
             ? protocol::encode(parts_.progress.evaluations().before(target_))
             : "";
}

// Returns the node from which this worker reads the state that is loaded: its own node if the state
// can be read there.
std::string Rounds::source_node(const Worker& worker) const {
  const std::set<std::string>& at = loads_->at;
  if (at.contains(worker.device.node)) return worker.device.node;
  for (const std::string& node : loads_->state.nodes)
    if (at.contains(node)) return node;
  return *at.begin();
}

bool Rounds::may_read(Incarnation worker, const std::string& path) const {
  const auto found = context_.fleet.workers().find(worker);
  return loads_ && found != context_.fleet.workers().end() && loads_->state.path == path &&
         source_node(found->second) != found->second.device.node;
}

void Rounds::load_again_without(const std::set<std::string>& nodes) {
  // Nothing is loaded in this phase, and install() uses the nodes that are present then.
  if (context_.phase == Phase::kPreparing) return;
  const bool waits_in_vain =
      loads_ && std::ranges::any_of(context_.fleet.placed(), [&](Incarnation incarnation) {
        const Worker& worker = *context_.fleet.find(incarnation);
        const std::string node = source_node(worker);
        return node != worker.device.node && nodes.contains(node);
      });
  if (waits_in_vain) begin();
}

void Rounds::take(const Worker& worker, const CheckpointUnreadable& message) {
  const bool relevant =
      context_.phase == Phase::kInstalling && loads_ && message.path == loads_->state.path;
  if (!relevant) return;
  context_.warn(worker.device.text() + ": " + message.error);
  parts_.restart.could_not_read(source_node(worker), loads_->state, message.gone, message.error);
  begin();
}

}  // namespace es::actors::intra_job
