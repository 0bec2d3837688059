#include "actors/head/intra_job/core/fleet.h"

#include <algorithm>

#include "proto/base/check.h"
#include "scheduler/plans/placement.h"

namespace es::actors::intra_job {

bool Fleet::allocate(const Allocation& allocation) {
  if (allocation.sequence <= sequence_) return false;
  sequence_ = allocation.sequence;
  settled_for_.reset();
  // Only the permission to use a device ends here. A device that is not in the new list stays held
  // until its process has ended.
  allocated_.clear();
  for (std::size_t i = 0; i < allocation.devices.size(); ++i) {
    const DeviceId& device = allocation.devices[i];
    const auto release = released_.find(device);
    // The scheduler sent this list before it had processed the release, so the device no longer
    // belongs to the job.
    if (release != released_.end() && release->second > allocation.releases_seen) continue;
    hold(device);
    if (i < allocation.prices_per_hour.size())
      price_per_hour_[device] = allocation.prices_per_hour[i];
  }
  return true;
}

double Fleet::price_per_hour() const {
  double sum = 0;
  for (const auto& [device, price] : price_per_hour_) sum += price;
  return sum;
}

void Fleet::hold(const DeviceId& device) {
  settled_for_.reset();
  allocated_.insert(device);
  if (!held_.insert(device).second) return;
  idle_.insert(device);
  if (nodes_.insert(device.node).second) nodes_used_.insert(device.node);
}

DeviceSet Fleet::allocated_set() const {
  DeviceSet set;
  for (const DeviceId& device : allocated_)
    if (allocated(device)) set.add(device.type, 1);
  return set;
}

void Fleet::release(const DeviceId& device) {
  settled_for_.reset();
  ES_CHECK(idle_.erase(device) == 1);
  held_.erase(device);
  price_per_hour_.erase(device);
  const auto other = held_.lower_bound({device.node, {}, 0});
  if (other == held_.end() || other->node != device.node) nodes_.erase(device.node);
  allocated_.erase(device);
  given_up_.erase(device);
  released_[device] = ++releases_;
}

Worker& Fleet::add(Incarnation incarnation, const DeviceId& device) {
  settled_for_.reset();
  ES_CHECK(idle_.erase(device) == 1);
  Worker& worker = workers_[incarnation];
  worker.incarnation = incarnation;
  worker.device = device;
  return worker;
}

void Fleet::erase(Incarnation incarnation) {
  const auto at = workers_.find(incarnation);
  if (at == workers_.end()) return;
  settled_for_.reset();
  if (held_.contains(at->second.device)) idle_.insert(at->second.device);
  workers_.erase(at);
}

void Fleet::leave(Worker& worker) {
  worker.phase = Worker::Phase::kLeaving;
  worker.placed = false;
  settled_for_.reset();
}

Worker* Fleet::find(Incarnation incarnation) {
  const auto found = workers_.find(incarnation);
  return found == workers_.end() ? nullptr : &found->second;
}

std::vector<Incarnation> Fleet::in_phase(Worker::Phase phase) const {
  std::vector<Incarnation> found;
  for (const auto& [incarnation, worker] : workers_) {
    if (worker.phase == phase) found.push_back(incarnation);
  }
  return found;
}

std::vector<Incarnation> Fleet::placed() const {
  std::vector<Incarnation> found;
  for (const auto& [incarnation, worker] : workers_) {
    if (worker.phase == Worker::Phase::kKnown && worker.placed) found.push_back(incarnation);
  }
  return found;
}

Fleet::Choice Fleet::choose(const Wanted& wanted, bool with_warm) const {
  std::vector<const Worker*> pool;
  bool any_is_starting = false;
  for (const auto& [incarnation, worker] : workers_) {
    if (!available(worker)) continue;
    any_is_starting = any_is_starting || worker.phase == Worker::Phase::kStarting;
    if (worker.phase == Worker::Phase::kKnown ||
        (with_warm && worker.phase == Worker::Phase::kWarm)) {
      pool.push_back(&worker);
    }
  }
  // Members come first, because each of them keeps its process and its state if it stays.
  std::stable_sort(pool.begin(), pool.end(),
                   [](const Worker* a, const Worker* b) { return a->placed > b->placed; });
  Choice choice;
  if (!wanted) {
    for (const Worker* worker : pool) {
      if (choice.workers.size() < max_p_) choice.workers.insert(worker->incarnation);
    }
    // A process that is starting would cause another round soon, so it is awaited.
    choice.complete =
        !choice.workers.empty() && (!any_is_starting || choice.workers.size() == max_p_);
    return choice;
  }
  std::vector<DeviceType> types;
  for (const Worker* worker : pool) types.push_back(worker->device.type);
  const scheduler::StayChoice stay = scheduler::choose_stay(types, *wanted);
  for (const std::size_t index : stay.stay) choice.workers.insert(pool[index]->incarnation);
  choice.complete = stay.join.empty();
  return choice;
}

bool Fleet::awaits_start(const Wanted& wanted) const {
  // With more workers than max_p, enough of them may be up.
  if (wanted || workers_.size() > max_p_) return false;
  // Processes usually come up in the order of their start.
  return std::any_of(workers_.rbegin(), workers_.rend(), [this](const auto& entry) {
    return entry.second.phase == Worker::Phase::kStarting && available(entry.second);
  });
}

std::set<Incarnation> Fleet::all_available() const {
  // If all members must leave their devices and no other worker is known, they stay members until
  // another one is: they may hold the only copies of the state.
  const std::set<Incarnation> available = choose(std::nullopt, false).workers;
  if (!available.empty()) return available;
  std::set<Incarnation> known;
  for (const Incarnation incarnation : in_phase(Worker::Phase::kKnown)) {
    if (known.size() < max_p_) known.insert(incarnation);
  }
  return known;
}

Fleet::Staffing Fleet::staffing(const Wanted& wanted) const {
  // After a restart it is not known which devices may be used. A job that wants none can give all
  // back.
  if (sequence_ == 0 && !(wanted && wanted->empty())) return {};
  if (settled_for_ && *settled_for_ == wanted) return {};
  std::map<DeviceType, std::uint32_t> staffed;
  std::map<DeviceType, std::uint32_t> held;
  std::uint32_t total = 0;
  Staffing result;
  const auto has_room = [&](const DeviceType& type) {
    return wanted ? staffed[type] < wanted->count_of(type) : total < max_p_;
  };
  // A known worker is never dismissed here, because it may hold the newest version. It leaves in a
  // round.
  const auto settle = [&](Worker::Phase phase) {
    for (const auto& [incarnation, worker] : workers_) {
      if (worker.phase != phase) continue;
      const bool known = phase == Worker::Phase::kKnown;
      if (available(worker) && (known || has_room(worker.device.type))) {
        ++staffed[worker.device.type];
        ++total;
      } else if (!known) {
        result.dismiss.push_back(incarnation);
      }
    }
  };
  // Processes that have come further take the places first, so those that are dismissed cost the
  // least.
  settle(Worker::Phase::kKnown);
  settle(Worker::Phase::kWarm);
  settle(Worker::Phase::kStarting);
  for (const DeviceId& device : held_) ++held[device.type];
  for (const DeviceId& device : idle_devices()) {
    if (allocated(device) && has_room(device.type)) {
      ++staffed[device.type];
      ++total;
      result.start.push_back(device);
    } else if (!allocated(device) ||
               (wanted && held[device.type] > wanted->count_of(device.type))) {
      // Of the devices that the job may keep, only those beyond an exact demand are given back.
      --held[device.type];
      result.give_back.push_back(device);
    }
  }
  if (result.start.empty() && result.give_back.empty() && result.dismiss.empty())
    settled_for_ = wanted;
  return result;
}

}  // namespace es::actors::intra_job
