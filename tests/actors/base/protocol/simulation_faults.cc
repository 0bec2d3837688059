// Simulation: the faults.
#include <algorithm>

#include "tests/actors/base/protocol/simulation.h"

namespace es::test {

using namespace actors;
using namespace actors::protocol;

std::vector<std::uint64_t> Simulation::alive() const {
  std::vector<std::uint64_t> found;
  for (const auto& [incarnation, process] : processes_) {
    if (process.life == Process::Life::kRunning) found.push_back(incarnation);
  }
  return found;
}

void Simulation::maybe_disturb() {
  if (!chance(4)) return;
  std::vector<std::string> kinds;
  for (const auto& [kind, left] : faults_left_) {
    if (left > 0 && kind != "failed start") kinds.push_back(kind);
  }
  if (kinds.empty()) return;
  const std::string kind = kinds[pick(kinds.size())];
  --faults_left_[kind];
  mark(kind + " in phase " + std::to_string(static_cast<int>(head_->phase())));
  if (kind == "crash") crash();
  if (kind == "freeze") freeze();
  if (kind == "cut") cut();
  if (kind == "lost message") lose_message();
  if (kind == "head restart") restart_in_effects_ = true;
  if (kind == "reallocation") reallocate();
  if (kind == "scale") scale();
  if (kind == "drain") drain();
  if (kind == "pause") {
    open_requests_.insert(next_request_);
    from_clients_.push_back(intra_job::PauseCommand{next_request_++});
  }
  if (kind == "checkpoint") {
    open_requests_.insert(next_request_);
    from_clients_.push_back(
        intra_job::CheckpointCommand{next_request_, "checkpoint-" + std::to_string(next_request_)});
    ++next_request_;
  }
  if (kind == "damage" && !checkpoints_.empty())
    damaged_.insert(std::next(checkpoints_.begin(), pick(checkpoints_.size()))->first);
  if (kind == "cancel") {
    open_requests_.insert(next_request_);
    from_clients_.push_back(intra_job::CancelCommand{next_request_++});
  }
}

void Simulation::crash() {
  const std::vector<std::uint64_t> running = alive();
  if (running.empty()) return;
  const std::uint64_t victim = running[pick(running.size())];
  for (auto& [channel, queue] : channels_) {
    if (channel.first == victim && chance(50)) queue.clear();
  }
  given_up_.insert(victim);
  end_process(victim);
}

void Simulation::freeze() {
  const std::vector<std::uint64_t> running = alive();
  if (running.empty()) return;
  const std::uint64_t victim = running[pick(running.size())];
  process(victim).life = Process::Life::kFrozen;
  given_up_.insert(victim);
  from_nodes_.push_back(intra_job::WorkerLost{Incarnation{victim}, "silent"});
}

void Simulation::cut() {
  const std::vector<std::uint64_t> running = alive();
  if (running.size() < 2) return;
  const std::size_t a = pick(running.size());
  const std::size_t b = (a + 1 + pick(running.size() - 1)) % running.size();
  cut_.insert({running[a], running[b]});
  channels_[{running[a], running[b]}].clear();
  channels_[{running[b], running[a]}].clear();
  given_up_.insert(running[a]);  // One of the two may be evicted.
  given_up_.insert(running[b]);
}

void Simulation::lose_message() {
  for (auto& [channel, queue] : channels_) {
    if (channel.first == 0 || channel.second == 0 || queue.empty()) continue;
    queue.pop_front();
    return;
  }
}

void Simulation::reallocate() {
  if (!options_.stages.empty() || demand_) return;
  std::set<DeviceId> devices;
  for (const DeviceId& device : inventory_) {
    const bool free = granted_.contains(device) || !occupied_.contains(device);
    if (free && chance(50) && devices.size() < options_.max_p) devices.insert(device);
  }
  if (devices.empty()) devices = granted_;
  allocate(devices);
}

void Simulation::drain() {
  if (granted_.empty()) return;
  allocate({}, true);
}

void Simulation::scale() {
  DeviceSet wanted;
  for (const DeviceId& device : inventory_) {
    if (chance(50) && wanted.total() < options_.max_p) wanted.add(device.type, 1);
  }
  intra_job::ScaleCommand command{.request = next_request_, .devices = std::nullopt};
  if (!wanted.empty()) command.devices = wanted;
  open_requests_.insert(next_request_++);
  from_clients_.push_back(command);
}

}  // namespace es::test
