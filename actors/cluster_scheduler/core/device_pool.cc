// DevicePool: a table of devices with their states, and indexes of it, so that a grant need not
// look at every device of the cluster.
#include "actors/cluster_scheduler/core/device_pool.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "proto/base/check.h"

namespace es::actors {
namespace {

std::map<std::string, std::uint32_t> count_by_node(const std::set<DeviceId>& devices) {
  std::map<std::string, std::uint32_t> counts;
  for (const DeviceId& id : devices) ++counts[id.node];
  return counts;
}

DeviceSet count_by_type(const std::set<DeviceId>& devices) {
  DeviceSet set;
  for (const DeviceId& id : devices) set.add(id.type, 1);
  return set;
}

}  // namespace

void DevicePool::join(const std::string& node, const DeviceSet& devices) {
  live_nodes_[node] = true;
  for (const DeviceCount& c : devices.counts) {
    for (std::uint32_t index = 0; index < c.count; ++index) {
      const DeviceId id{node, c.type, index};
      const auto [at, is_new] = devices_.try_emplace(id);
      Device& device = at->second;
      // A live device keeps its state: a repeated hello must not free what a job holds.
      if (device.state != State::kLost) continue;
      // A lost device with an owner is not free when its node returns: the node may only have been
      // unreachable, and the process of the owner may still run there.
      set_state(id, device, device.owner.empty() ? unowned(id) : State::kReturning, device.owner);
    }
  }
}

bool DevicePool::adopt(const JobId& job, const DeviceId& id) {
  const auto at = devices_.find(id);
  // A suspect device, or one that belongs to another job already, is not adopted.
  if (at == devices_.end() || at->second.state != State::kFree) return false;
  set_state(id, at->second, State::kHeld, job);
  return true;
}

bool DevicePool::is_live(const std::string& node) const {
  const auto at = live_nodes_.find(node);
  return at != live_nodes_.end() && at->second;
}

std::vector<JobId> DevicePool::lose(const std::string& node) {
  if (!is_live(node)) return {};
  live_nodes_[node] = false;
  std::set<JobId> holders;
  // Devices are ordered by node first, so those of one node are neighbours.
  for (auto at = devices_.lower_bound({node, {}, 0});
       at != devices_.end() && at->first.node == node; ++at) {
    Device& device = at->second;
    if (device.state == State::kHeld) holders.insert(device.owner);
    set_state(at->first, device, State::kLost, device.owner);
  }
  return {holders.begin(), holders.end()};
}

// The number of free devices is a part of the key in by_count, so the entry is removed before the
// number changes and inserted again afterwards.
void DevicePool::Free::insert(const DeviceId& id) {
  std::set<std::uint32_t>& here = by_node[id.node];
  by_count.erase({-static_cast<std::int64_t>(here.size()), id.node});
  here.insert(id.index);
  by_count.insert({-static_cast<std::int64_t>(here.size()), id.node});
}

void DevicePool::Free::erase(const DeviceId& id) {
  const auto at = by_node.find(id.node);
  by_count.erase({-static_cast<std::int64_t>(at->second.size()), id.node});
  at->second.erase(id.index);
  if (at->second.empty()) {
    by_node.erase(at);
  } else {
    by_count.insert({-static_cast<std::int64_t>(at->second.size()), id.node});
  }
}

void DevicePool::grant(const JobId& job, const DeviceType& type, std::uint32_t count) {
  ES_CHECK(count > 0 && free_devices_.count_of(type) >= count);
  // The devices are chosen first and change their state at the end, because set_state() changes the
  // sets that are read here.
  const Free& free = free_.at(type);
  std::vector<DeviceId> chosen;
  const auto choose = [&](const std::string& node) {
    for (const std::uint32_t index : free.by_node.at(node)) {
      if (chosen.size() == count) return;
      chosen.push_back({node, type, index});
    }
  };
  const auto held_on = count_by_node(held(job));
  std::vector<std::tuple<std::int64_t, std::int64_t, std::string>> known;  // (-held, -free, node)
  for (const auto& [node, held_here] : held_on)
    if (const auto at = free.by_node.find(node); at != free.by_node.end())
      known.emplace_back(-std::int64_t{held_here}, -static_cast<std::int64_t>(at->second.size()),
                         node);
  std::sort(known.begin(), known.end());
  for (const auto& [held_here, free_here, node] : known) choose(node);
  for (auto at = free.by_count.begin(); chosen.size() < count; ++at)
    if (!held_on.contains(at->second)) choose(at->second);
  for (const DeviceId& id : chosen) set_state(id, devices_.at(id), State::kHeld, job);
}

void DevicePool::retire(const JobId& job, const DeviceType& type, std::uint32_t count) {
  const auto held_on = count_by_node(held(job));
  std::vector<DeviceId> chosen;
  for (const DeviceId& id : held(job))
    if (id.type == type) chosen.push_back(id);
  ES_CHECK(chosen.size() >= count);
  // The devices on nodes where the job holds most come first. The last `count` ones are given back,
  // so the job is left on few nodes.
  std::stable_sort(chosen.begin(), chosen.end(), [&](const DeviceId& a, const DeviceId& b) {
    return held_on.at(a.node) > held_on.at(b.node);
  });
  chosen.erase(chosen.begin(), chosen.end() - count);
  for (const DeviceId& id : chosen) set_state(id, devices_.at(id), State::kReturning, job);
}

DevicePool::Released DevicePool::release(const JobId& job, const DeviceId& id) {
  const auto at = devices_.find(id);
  if (at == devices_.end() || at->second.owner != job) return Released::kNotItsOwn;
  Device& device = at->second;
  const bool held = device.state == State::kHeld;
  // A lost device stays lost. Without an owner it is free at once when its node returns.
  set_state(id, device, device.state == State::kLost ? State::kLost : unowned(id), {});
  return held ? Released::kUnasked : Released::kReturned;
}

void DevicePool::release_all(const JobId& job) {
  const auto owned = owned_.find(job);
  if (owned == owned_.end()) return;
  // A copy, because release() removes the devices from this set.
  const std::set<DeviceId> devices = owned->second;
  for (const DeviceId& id : devices) release(job, id);
}

void DevicePool::suspect(const DeviceId& id, const std::string& reason) {
  suspects_[id] = reason;
  const auto at = devices_.find(id);
  // A device that a job owns keeps its state, because a process still runs there. It becomes
  // suspect when the job releases it (unowned).
  if (at != devices_.end() && at->second.state == State::kFree)
    set_state(id, at->second, State::kSuspect, {});
}

bool DevicePool::clear(const DeviceId& id) {
  if (suspects_.erase(id) == 0) return false;
  const auto at = devices_.find(id);
  if (at != devices_.end() && at->second.state == State::kSuspect)
    set_state(id, at->second, State::kFree, {});
  return true;
}

const std::set<DeviceId>& DevicePool::held(const JobId& job) const {
  static const std::set<DeviceId> kNone;
  const auto at = held_.find(job);
  return at == held_.end() ? kNone : at->second;
}

const std::set<DeviceId>& DevicePool::owned(const JobId& job) const {
  static const std::set<DeviceId> kNone;
  const auto at = owned_.find(job);
  return at == owned_.end() ? kNone : at->second;
}

DeviceSet DevicePool::held_devices(const JobId& job) const {
  return count_by_type(held(job));
}

std::uint32_t DevicePool::returning_count(const JobId& job) const {
  const std::set<DeviceId>& all = owned(job);
  // The usual case, without a look at every device.
  if (all.size() == held(job).size()) return 0;
  return static_cast<std::uint32_t>(std::count_if(all.begin(), all.end(), [&](const DeviceId& id) {
    return devices_.at(id).state == State::kReturning;
  }));
}

std::vector<DevicePool::NodeView> DevicePool::nodes() const {
  std::vector<NodeView> views;
  // Both maps are ordered by the names of nodes, and every device belongs to a node in live_nodes_,
  // so one pass over both is enough.
  auto at = devices_.begin();
  for (const auto& [name, alive] : live_nodes_) {
    NodeView view{name, alive, {}};
    for (; at != devices_.end() && at->first.node == name; ++at) {
      const auto suspect = suspects_.find(at->first);
      view.devices.push_back(
          {at->first, at->second.owner, suspect == suspects_.end() ? "" : suspect->second});
    }
    views.push_back(std::move(view));
  }
  return views;
}

// All changes of a state go through this function. It removes the device from every index and adds
// it again, so no transition can forget one of them.
void DevicePool::set_state(const DeviceId& id, Device& device, State state, const JobId& owner) {
  account(id, device, false);
  device = {state, owner};
  account(id, device, true);
}

void DevicePool::account(const DeviceId& id, const Device& device, bool add) {
  const auto count = [&](DeviceSet& set) { add ? set.add(id.type, 1) : set.remove(id.type, 1); };
  const auto list = [&](auto& sets, const auto& key) {
    if (add) {
      sets[key].insert(id);
    } else if (auto& set = sets[key]; set.erase(id) > 0 && set.empty()) {
      sets.erase(key);
    }
  };
  if (!device.owner.empty()) list(owned_, device.owner);
  if (device.state == State::kHeld) list(held_, device.owner);
  if (device.state == State::kFree) add ? free_[id.type].insert(id) : free_[id.type].erase(id);
  if (device.state == State::kFree) count(free_devices_);
  if (device.state == State::kReturning) count(returning_devices_);
  const bool exists = device.state != State::kLost && device.state != State::kSuspect;
  if (exists) count(existing_devices_);
}

// Computes all indexes from devices_ alone and compares them with those that were updated step by
// step.
void DevicePool::check_invariants() const {
  std::map<JobId, std::set<DeviceId>> owned, held;
  std::map<DeviceType, Free> free;
  for (const auto& [type, devices] : free_) free[type];
  DeviceSet free_count, returning_count, existing_count;
  for (const auto& [id, device] : devices_) {
    const bool must_have_owner = device.state == State::kHeld || device.state == State::kReturning;
    ES_CHECK_MSG(!must_have_owner || !device.owner.empty(), id.text());
    ES_CHECK_MSG(device.state != State::kFree || device.owner.empty(), id.text());
    ES_CHECK_MSG(device.state == State::kLost || live_nodes_.at(id.node), id.text());
    if (!device.owner.empty()) owned[device.owner].insert(id);
    if (device.state == State::kHeld) held[device.owner].insert(id);
    if (device.state == State::kFree) free[id.type].insert(id);
    if (device.state == State::kFree) free_count.add(id.type, 1);
    if (device.state == State::kReturning) returning_count.add(id.type, 1);
    const bool suspect = device.state == State::kSuspect;
    ES_CHECK_MSG(!suspect || device.owner.empty(), id.text());
    if (suspect || device.state == State::kFree)
      ES_CHECK_MSG(suspect == suspects_.contains(id), id.text());
    if (device.state != State::kLost && !suspect) existing_count.add(id.type, 1);
  }
  ES_CHECK(owned == owned_ && held == held_ && free == free_);
  ES_CHECK(free_count == free_devices_ && returning_count == returning_devices_);
  ES_CHECK(existing_count == existing_devices_);
}

std::vector<JobId> DevicePool::owners() const {
  std::vector<JobId> jobs;
  for (const auto& [job, devices] : owned_) jobs.push_back(job);
  return jobs;
}

}  // namespace es::actors
