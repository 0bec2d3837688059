#include "actors/head/cluster_scheduler/core/node_book.h"

#include <algorithm>

namespace es::actors {
namespace {

// The part of a notice that is left for jobs to move or to be saved, and its longest time.
constexpr double kLeaveShare = 0.5;
constexpr double kLeaveSecondsMax = 30;

}  // namespace

double leave_time_s(double now_s, double left_s) {
  return now_s + left_s - std::min(kLeaveSecondsMax, kLeaveShare * left_s);
}

void NodeBook::await_worker(Incarnation worker, const JobId& job, const DeviceId& device) {
  journaled_[worker] = {job, device};
  awaited_.insert(device.node);
}

std::set<Incarnation> NodeBook::hello(const NodeArrival& node) {
  draining_.erase(node.name);  // a node that drains says so again after its hello
  const std::set<Incarnation> strays = strays_of(node);
  if (strays.empty())
    make_ready(node);
  else
    arriving_[node.name] = {node, strays};  // a repeated hello replaces this entry
  return strays;
}

std::set<Incarnation> NodeBook::strays_of(const NodeArrival& node) {
  const bool was_lost = std::exchange(was_lost_[node.name], false);
  std::set<Incarnation> strays;
  for (const Incarnation worker : node.workers)
    if (was_lost || (worker < first_own_ && !journaled_.contains(worker))) strays.insert(worker);
  return strays;
}

bool NodeBook::reaped(const std::string& node, Incarnation worker) {
  const auto at = arriving_.find(node);
  if (at == arriving_.end() || at->second.strays.erase(worker) == 0 || !at->second.strays.empty())
    return false;
  const NodeArrival arrived = std::move(at->second.node);
  arriving_.erase(at);
  make_ready(arrived);
  return true;
}

void NodeBook::make_ready(const NodeArrival& node) {
  awaited_.erase(node.name);
  ready_.push_back(node);
}

cluster::NodeJoined NodeBook::joined(const NodeArrival& node) const {
  cluster::NodeJoined joined{node.name, node.devices};
  joined.memory = node.memory;
  if (const auto place = places_.find(node.name); place != places_.end())
    joined.place = place->second;
  for (const Incarnation worker : node.workers)
    if (const auto at = journaled_.find(worker); at != journaled_.end())
      joined.kept.push_back(at->second);
  return joined;
}

NodeBook::Parting NodeBook::part(const std::string& node) {
  places_.erase(node);
  const auto known = was_lost_.find(node);
  if (known == was_lost_.end()) return Parting::kUnknown;
  known->second = true;
  arriving_.erase(node);
  std::erase_if(ready_, [&](const NodeArrival& arrival) { return arrival.name == node; });
  return draining_.erase(node) == 0 ? Parting::kLost : Parting::kLeft;
}

bool NodeBook::is_present(const DevicePool::NodeView& node) const {
  if (node.alive || draining_.contains(node.name)) return true;
  const auto lost = was_lost_.find(node.name);
  return vacated_.contains(node.name) && lost != was_lost_.end() && !lost->second;
}

bool NodeBook::is_gone(const std::string& node, double now_s) const {
  const auto at = vacated_.find(node);
  return at != vacated_.end() && at->second.gone_s != 0 && at->second.gone_s <= now_s;
}

std::optional<std::uint64_t> NodeBook::gone_unix_ms(const std::string& node) const {
  const auto at = vacated_.find(node);
  return at == vacated_.end() ? std::nullopt : std::optional(at->second.gone_unix_ms);
}

}  // namespace es::actors
