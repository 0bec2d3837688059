// DevicePool: a table of devices with their states, and indexes of it, so that a grant need not
// look at every device of the cluster.
#include "actors/head/cluster_scheduler/core/device_pool.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <tuple>
#include <utility>

#include "proto/base/check.h"

namespace es::actors {
namespace {

constexpr char kSpotMark = '\n';  // begins the rack of spot nodes; no name has it

std::uint32_t island_of(const NodePlace& place, std::uint32_t index) {
  return place.island_devices == 0 ? 0 : index / place.island_devices;
}

DeviceSet count_by_type(const std::set<DeviceId>& devices) {
  DeviceSet set;
  for (const DeviceId& id : devices) set.add(id.type, 1);
  return set;
}

}  // namespace

// The devices that grant() gives to a job, of one type.
class DevicePool::Choice {
 public:
  Choice(const DevicePool& pool, const JobId& job, const DeviceType& type, std::uint32_t count,
         const Wish& wish)
      : pool_(pool), type_(type), free_(pool.free_.at(type)), missing_(count), wish_(wish) {
    for (const DeviceId& id : pool.held(job)) {
      const NodePlace& place = pool.place_of(id.node);
      ++held_in_rack_[pool.rack_of(id.node)];
      ++held_on_node_[id.node];
      nodes_.insert(id.node);
      if (id.type == type) ++held_in_island_[{id.node, island_of(place, id.index)}];
    }
  }

  std::vector<DeviceId> run() {
    for (const bool spot : {wish_.on_spot, !wish_.on_spot}) take_racks(spot);
    return std::move(chosen_);
  }

 private:
  using BySize = std::set<std::pair<std::int64_t, std::string>>;  // (-devices, name)

  using Held = std::map<std::string, std::uint32_t>;  // devices of the job, by rack or by node

  // Takes from the one with the fewest devices that suffice, otherwise from the one with the most,
  // and again until nothing is missing or left. Of equal ones the first by name. Those in `held`
  // are taken already.
  template <class Take>
  void take_best(const BySize& sets, const Held& held, const Take& take) {
    std::set<std::string> taken;
    const auto is_open = [&](const BySize::value_type& entry) {
      return !held.contains(entry.second) && !taken.contains(entry.second);
    };
    while (missing_ > 0) {
      // The first one that is too small.
      const auto less =
          sets.lower_bound({1 - std::int64_t{missing_} - std::int64_t{wish_.room}, ""});
      const auto enough = std::find_if(std::make_reverse_iterator(less), sets.rend(), is_open);
      const auto from =
          enough == sets.rend() ? less : sets.lower_bound({enough->first, std::string()});
      const auto best = std::find_if(from, sets.end(), is_open);
      if (best == sets.end()) return;
      taken.insert(best->second);
      take(best->second);
    }
  }

  // Takes from racks of spot nodes, or from the others.
  void take_racks(bool spot) {
    const auto fits = [&](const std::string& rack) { return rack.starts_with(kSpotMark) == spot; };
    std::vector<std::tuple<std::int64_t, std::int64_t, std::string>> known;  // (-held, -free, rack)
    for (const auto& [rack, held] : held_in_rack_)
      if (const auto at = free_.racks.find(rack); at != free_.racks.end() && fits(rack))
        known.emplace_back(-std::int64_t{held}, -std::int64_t{at->second.devices}, rack);
    std::sort(known.begin(), known.end());
    for (const auto& [held, free, rack] : known) take_rack(rack);
    BySize racks;
    for (const auto& [rack, free] : free_.racks)
      if (missing_ > 0 && fits(rack)) racks.emplace(-std::int64_t{free.devices}, rack);
    take_best(racks, held_in_rack_, [this](const std::string& rack) { take_rack(rack); });
  }

  void take_rack(const std::string& rack) {
    if (missing_ == 0) return;
    const Free::Rack& free = free_.racks.at(rack);
    std::vector<std::tuple<std::int64_t, std::int64_t, std::string>> known;  // (-held, -free, node)
    for (const auto& [node, held] : held_on_node_)
      if (const auto at = free_.by_node.find(node);
          at != free_.by_node.end() && pool_.rack_of(node) == rack)
        known.emplace_back(-std::int64_t{held}, -static_cast<std::int64_t>(at->second.size()),
                           node);
    std::sort(known.begin(), known.end());
    for (const auto& [held, free_here, node] : known) take_node(node);
    if (pool_.places_.empty()) {
      for (auto at = free.by_count.begin(); at != free.by_count.end() && missing_ > 0; ++at)
        if (!held_on_node_.contains(at->second)) take_node(at->second);
      return;
    }
    take_best(free.by_count, held_on_node_, [this](const std::string& node) { take_node(node); });
  }

  bool may_take(const std::string& node) const {
    if (wish_.avoids && wish_.avoids(node, type_)) return false;
    return !wish_.cut || std::ranges::none_of(nodes_, [&](const std::string& other) {
      return wish_.cut(node, other);
    });
  }

  void take_node(const std::string& node) {
    if (missing_ == 0 || !may_take(node)) return;
    nodes_.insert(node);
    const NodePlace& place = pool_.place_of(node);
    std::map<std::uint32_t, std::vector<std::uint32_t>> islands;
    for (const std::uint32_t index : free_.by_node.at(node))
      islands[island_of(place, index)].push_back(index);
    while (missing_ > 0 && !islands.empty()) {
      const auto at = best_island(node, islands);
      for (const std::uint32_t index : at->second) {
        if (missing_ == 0) break;
        chosen_.push_back({node, type_, index});
        --missing_;
      }
      islands.erase(at);
    }
  }

  using Islands = std::map<std::uint32_t, std::vector<std::uint32_t>>;  // free indices
  Islands::iterator best_island(const std::string& node, Islands& islands) const {
    // Smaller is better: fewer held, too small, what is left over or missing.
    const auto rank = [&](const Islands::value_type& island) {
      const auto held = held_in_island_.find({node, island.first});
      const auto has = static_cast<std::int64_t>(island.second.size());
      const std::int64_t beyond = has - std::int64_t{missing_} - std::int64_t{wish_.room};
      return std::tuple(held == held_in_island_.end() ? 0 : -std::int64_t{held->second}, beyond < 0,
                        std::abs(beyond), island.first);
    };
    return std::min_element(islands.begin(), islands.end(),
                            [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  }

  const DevicePool& pool_;
  const DeviceType type_;
  const Free& free_;
  std::uint32_t missing_;
  const Wish wish_;
  Held held_in_rack_, held_on_node_;
  std::set<std::string> nodes_;  // where the job has devices after the grant
  std::map<std::pair<std::string, std::uint32_t>, std::uint32_t> held_in_island_;
  std::vector<DeviceId> chosen_;
};

const NodePlace& DevicePool::place_of(const std::string& node) const {
  static const NodePlace kUnknown;
  const auto at = places_.find(node);
  return at == places_.end() ? kUnknown : at->second;
}

std::string DevicePool::rack_of(const std::string& node) const {
  const NodePlace& place = place_of(node);
  return place.spot ? kSpotMark + place.rack : place.rack;
}

void DevicePool::join(const std::string& node, const DeviceSet& devices, const NodePlace& place,
                      const MemoryByType& memory) {
  if (place != place_of(node)) {
    // The indexes of free devices contain the rack, so a node that has moved leaves them first.
    std::vector<DeviceId> moved;
    for (auto at = devices_.lower_bound({node, {}, 0});
         at != devices_.end() && at->first.node == node; ++at)
      if (at->second.state == State::kFree) moved.push_back(at->first);
    for (const DeviceId& id : moved) account(id, devices_.at(id), false);
    if (place.is_known())
      places_[node] = place;
    else
      places_.erase(node);
    for (const DeviceId& id : moved) account(id, devices_.at(id), true);
  }
  live_nodes_[node] = true;
  const bool same = listed_[node] == devices && memory_[node] == memory;
  listed_[node] = devices;
  memory_[node] = memory;
  if (!same) count_kinds();
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
  if (at == devices_.end()) return false;
  // Not free because jobs have to leave its node. This one does not have to leave it yet.
  const bool is_vacated = at->second.state == State::kLost && at->second.owner.empty() &&
                          is_live(id.node) && vacated_.contains(id.node);
  // A suspect device, or one that belongs to another job already, is not adopted.
  if (at->second.state != State::kFree && !is_vacated) return false;
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
void DevicePool::Free::insert(const DeviceId& id, const std::string& rack) {
  Rack& there = racks[rack];
  std::set<std::uint32_t>& here = by_node[id.node];
  there.by_count.erase({-static_cast<std::int64_t>(here.size()), id.node});
  here.insert(id.index);
  there.by_count.insert({-static_cast<std::int64_t>(here.size()), id.node});
  ++there.devices;
}

void DevicePool::Free::erase(const DeviceId& id, const std::string& rack) {
  const auto there = racks.find(rack);
  const auto at = by_node.find(id.node);
  there->second.by_count.erase({-static_cast<std::int64_t>(at->second.size()), id.node});
  at->second.erase(id.index);
  if (at->second.empty()) {
    by_node.erase(at);
  } else {
    there->second.by_count.insert({-static_cast<std::int64_t>(at->second.size()), id.node});
  }
  if (--there->second.devices == 0) racks.erase(there);
}

std::uint32_t DevicePool::grant(const JobId& job, const DeviceType& type, std::uint32_t count,
                                const Wish& wish) {
  ES_CHECK(count > 0 && free_devices_.count_of(type) >= count);
  // The devices are chosen first and change their state at the end, because set_state() changes the
  // sets that the choice reads.
  const std::vector<DeviceId> chosen = Choice(*this, job, type, count, wish).run();
  for (const DeviceId& id : chosen) set_state(id, devices_.at(id), State::kHeld, job);
  return static_cast<std::uint32_t>(chosen.size());
}

std::uint32_t DevicePool::reachable(const JobId& job, const DeviceType& type,
                                    const Wish& wish) const {
  const std::uint32_t free = free_devices_.count_of(type);
  if (free == 0) return 0;
  return static_cast<std::uint32_t>(Choice(*this, job, type, free, wish).run().size());
}

void DevicePool::retire(const JobId& job, const DeviceType& type, std::uint32_t count) {
  std::map<std::string, std::uint32_t> in_rack, on_node;
  std::map<std::pair<std::string, std::uint32_t>, std::uint32_t> in_island;
  std::vector<DeviceId> chosen;
  for (const DeviceId& id : held(job)) {
    const NodePlace& place = place_of(id.node);
    ++in_rack[rack_of(id.node)];
    ++on_node[id.node];
    if (id.type != type) continue;
    if (place.island_devices > 0) ++in_island[{id.node, island_of(place, id.index)}];
    chosen.push_back(id);
  }
  ES_CHECK(chosen.size() >= count);
  // The devices where the job holds most come first. The last `count` ones are given back, so the
  // job is left in few racks, on few nodes, and in few islands.
  const auto neighbours = [&](const DeviceId& id) {
    const NodePlace& place = place_of(id.node);
    const auto island = in_island.find({id.node, island_of(place, id.index)});
    return std::tuple(in_rack.at(rack_of(id.node)), on_node.at(id.node),
                      island == in_island.end() ? 0U : island->second);
  };
  std::stable_sort(chosen.begin(), chosen.end(), [&](const DeviceId& a, const DeviceId& b) {
    return neighbours(a) > neighbours(b);
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

void DevicePool::vacate(const std::string& node) {
  if (!vacated_.insert(node).second) return;
  for (auto at = devices_.lower_bound({node, {}, 0});
       at != devices_.end() && at->first.node == node; ++at)
    if (at->second.owner.empty()) set_state(at->first, at->second, State::kLost, {});
}

bool DevicePool::stay(const std::string& node, bool is_present) {
  if (vacated_.erase(node) == 0) return false;
  if (is_present)
    join(node, DeviceSet(listed_[node]), NodePlace(place_of(node)), MemoryByType(memory_[node]));
  return true;
}

void DevicePool::suspect(const DeviceId& id, const std::string& reason,
                         std::optional<double> until_s) {
  const auto known = suspects_.find(id);
  if (known != suspects_.end() && !known->second.until_s && until_s) return;
  const auto at = devices_.find(id);
  // Whether it exists depends on the suspicion, so it leaves the counts while that changes.
  if (at != devices_.end()) account(id, at->second, false);
  suspects_[id] = {reason, until_s};
  if (at == devices_.end()) return;
  // A device that a job owns keeps its state, because a process still runs there. It becomes
  // suspect when the job releases it (unowned).
  if (at->second.state == State::kFree) at->second.state = State::kSuspect;
  account(id, at->second, true);
}

bool DevicePool::clear(const DeviceId& id) {
  const auto known = suspects_.find(id);
  if (known == suspects_.end()) return false;
  const auto at = devices_.find(id);
  if (at != devices_.end()) account(id, at->second, false);
  suspects_.erase(known);
  if (at == devices_.end()) return true;
  if (at->second.state == State::kSuspect) at->second.state = State::kFree;
  account(id, at->second, true);
  return true;
}

void DevicePool::clear_until(double now_s) {
  std::vector<DeviceId> over;
  for (const auto& [id, suspicion] : suspects_)
    if (suspicion.until_s && *suspicion.until_s <= now_s) over.push_back(id);
  for (const DeviceId& id : over) clear(id);
}

void DevicePool::clear_timed(const DeviceId& id) {
  const auto known = suspects_.find(id);
  if (known != suspects_.end() && known->second.until_s) clear(id);
}

void DevicePool::clear_timed(const std::string& node) {
  for (const DeviceId& id : devices_of(node)) clear_timed(id);
}

std::optional<double> DevicePool::next_clear_s() const {
  std::optional<double> next_s;
  for (const auto& [id, suspicion] : suspects_)
    if (suspicion.until_s)
      next_s = std::min(next_s.value_or(*suspicion.until_s), *suspicion.until_s);
  return next_s;
}

std::vector<DeviceId> DevicePool::devices_of(const std::string& node) const {
  std::vector<DeviceId> devices;
  for (auto at = devices_.lower_bound({node, {}, 0});
       at != devices_.end() && at->first.node == node; ++at)
    devices.push_back(at->first);
  return devices;
}

std::set<std::string> DevicePool::nodes_with(const std::vector<DeviceType>& types) const {
  std::set<std::string> nodes;
  for (const auto& [id, device] : devices_)
    if (device.state != State::kLost && device.state != State::kSuspect &&
        std::ranges::find(types, id.type) != types.end())
      nodes.insert(id.node);
  return nodes;
}

scheduler::MemoryRoom DevicePool::memory_of(const std::string& node, const DeviceType& type) const {
  const auto at = memory_.find(node);
  if (at == memory_.end()) return {};
  const auto room = at->second.find(type);
  return room == at->second.end() ? scheduler::MemoryRoom() : room->second;
}

void DevicePool::count_kinds() {
  kinds_.clear();
  for (const auto& [node, listed] : listed_)
    for (const DeviceCount& c : listed.counts) {
      const scheduler::MemoryRoom room = memory_of(node, c.type);
      const auto same = std::ranges::find_if(
          kinds_, [&](const auto& kind) { return kind.type == c.type && kind.room == room; });
      if (same == kinds_.end())
        kinds_.push_back({c.type, room, c.count});
      else
        same->count += c.count;
    }
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
    NodeView view{name, alive, {}, place_of(name)};
    for (; at != devices_.end() && at->first.node == name; ++at) {
      const auto suspect = suspects_.find(at->first);
      view.devices.push_back({at->first, at->second.owner});
      if (suspect == suspects_.end()) continue;
      view.devices.back().suspect = suspect->second.reason;
      view.devices.back().suspect_until_s = suspect->second.until_s;
    }
    views.push_back(std::move(view));
  }
  return views;
}

bool DevicePool::exists(const DeviceId& id, const Device& device) const {
  return device.state != State::kLost &&
         (device.state != State::kSuspect || suspects_.at(id).until_s.has_value());
}

// All changes of a state go through this function, and those of suspicions through suspect() and
// clear(). It removes the device from every index and adds it again, so no transition can forget
// one of them.
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
  if (device.state == State::kFree) {
    const std::string rack = rack_of(id.node);
    add ? free_[id.type].insert(id, rack) : free_[id.type].erase(id, rack);
  }
  if (device.state == State::kFree) count(free_devices_);
  if (device.state == State::kReturning) count(returning_devices_);
  if (exists(id, device)) count(existing_devices_);
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
    ES_CHECK_MSG(device.state != State::kFree || !vacated_.contains(id.node), id.text());
    ES_CHECK_MSG(device.state == State::kLost || live_nodes_.at(id.node), id.text());
    if (!device.owner.empty()) owned[device.owner].insert(id);
    if (device.state == State::kHeld) held[device.owner].insert(id);
    if (device.state == State::kFree) free[id.type].insert(id, rack_of(id.node));
    if (device.state == State::kFree) free_count.add(id.type, 1);
    if (device.state == State::kReturning) returning_count.add(id.type, 1);
    const bool suspect = device.state == State::kSuspect;
    ES_CHECK_MSG(!suspect || device.owner.empty(), id.text());
    if (suspect || device.state == State::kFree)
      ES_CHECK_MSG(suspect == suspects_.contains(id), id.text());
    if (exists(id, device)) existing_count.add(id.type, 1);
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
