#include "scheduler/policy/greedy/greedy_index.h"

#include <algorithm>

#include "scheduler/model/device_sets.h"

namespace es::scheduler {
namespace {

bool may_use(const JobView& job, const DeviceType& type) {
  return std::find(job.types.begin(), job.types.end(), type) != job.types.end();
}

// The name of the group of a job that lacks something: it contains everything that decides whether
// devices suffice for it.
std::string group_of(const JobView& job, bool mix_types) {
  if (job.pinned) return "pinned " + beyond(*job.pinned, job.held).text();
  std::string group = mix_types ? "mixed " : "one type ";
  group += std::to_string(job.min_devices - job.held.total());
  for (const DeviceType& type : addable_types(job, mix_types)) group += ' ' + type.name;
  return group;
}

// Whether the job refuses the devices that it would hold with the proposal.
bool refuses_to_add(const JobView& job, const Proposal& proposal) {
  if (job.refusals.empty()) return false;
  DeviceSet after = beyond(job.held, replaced_by(proposal, job));
  after.add(proposal.type, proposal.count);
  return refusal_of(job.refusals, after) != nullptr;
}

template <class Map, class Key, class Value>
void erase_from(Map& sets, const Key& key, const Value& value) {
  const auto at = sets.find(key);
  at->second.erase(value);
  if (at->second.empty()) sets.erase(at);
}

}  // namespace

bool lacks_something(const JobView& job) {
  return job.pinned ? !job.held.contains(*job.pinned) : job.held.total() < job.min_devices;
}

DeviceSet replaced_by(const Proposal& proposal, const JobView& job) {
  const std::uint32_t after = job.held.total() + proposal.count;
  std::uint32_t beyond_most = after > job.max_devices ? after - job.max_devices : 0;
  std::vector<std::pair<double, DeviceCount>> others;  // by speed
  for (const DeviceCount& c : job.held.counts) {
    const auto speed = job.capabilities.find(c.type);
    if (c.type != proposal.type)
      others.emplace_back(speed == job.capabilities.end() ? 0 : speed->second, c);
  }
  std::ranges::stable_sort(others, {}, [](const auto& other) { return other.first; });
  DeviceSet replaced;
  for (const auto& [speed, c] : others) {
    const std::uint32_t count = std::min(c.count, beyond_most);
    if (count > 0) replaced.add(c.type, count);
    beyond_most -= count;
  }
  return replaced;
}

std::vector<DeviceType> addable_types(const JobView& job, bool mix_types) {
  if (mix_types || job.held.empty()) return job.types;
  const DeviceType& only = job.held.counts.front().type;
  // A mix that it holds, or a type that it may no longer use, cannot be extended.
  if (job.held.counts.size() > 1 || !may_use(job, only)) return {};
  return {only};
}

void GreedyIndex::update(const ClusterView& view) {
  if (!view.changed || entries_.empty() || view.jobs.size() < entries_.size()) {
    // The sets are empty after this, since each entry removes exactly what it has entered.
    for (std::size_t slot = 0; slot < entries_.size(); ++slot) erase(slot);
    entries_.assign(view.jobs.size(), {});
    for (std::size_t slot = 0; slot < view.jobs.size(); ++slot) write(view, slot);
    return;
  }
  entries_.resize(view.jobs.size());
  for (const std::size_t slot : *view.changed) write(view, slot);
}

void GreedyIndex::write(const ClusterView& view, std::size_t slot) {
  erase(slot);
  const JobView& job = view.jobs[slot];
  if (job.id.empty()) return;
  Entry& entry = entries_[slot];
  entry.is_present = true;
  entry.job = {job.number, slot};
  enter_extra(entry, job, job.held);
  if (lacks_something(job)) {
    entry.group = group_of(job, job.mix_types && !homogeneous_);
    waiting_[entry.group].insert(entry.job);
  } else if (job.pinned) {
    pinned_.insert(entry.job);
  } else if (job.settled) {
    enter_candidates(entry, job);
  }
}

void GreedyIndex::erase(std::size_t slot) {
  Entry& entry = entries_[slot];
  if (!entry.is_present) return;
  erase_extra(entry);
  if (!entry.group.empty()) erase_from(waiting_, entry.group, entry.job);
  pinned_.erase(entry.job);
  for (const auto& [kind, candidate] : entry.candidates) erase_from(candidates_, kind, candidate);
  entry = {};
}

void GreedyIndex::enter_extra(Entry& entry, const JobView& job, const DeviceSet& held) {
  const std::uint32_t total = held.total();
  entry.held = held;
  entry.extra = job.pinned || total <= job.min_devices ? 0 : total - job.min_devices;
  if (entry.extra == 0) return;
  for (const DeviceCount& c : held.counts) {
    extras_.add(c.type, std::min(c.count, entry.extra));
    holders_[c.type].insert({entry.extra, entry.job});
  }
}

void GreedyIndex::erase_extra(Entry& entry) {
  if (entry.extra == 0) return;
  for (const DeviceCount& c : entry.held.counts) {
    extras_.remove(c.type, std::min(c.count, entry.extra));
    erase_from(holders_, c.type, Holder{entry.extra, entry.job});
  }
}

void GreedyIndex::enter_candidates(Entry& entry, const JobView& job) {
  const std::vector<DeviceType> types = addable_types(job, job.mix_types && !homogeneous_);
  for (const Proposal& p : job.proposals) {
    if (p.speedup <= 1 || job.held.count_of(p.type) + p.count > job.max_devices) continue;
    if (std::find(types.begin(), types.end(), p.type) == types.end()) continue;
    if (refuses_to_add(job, p)) continue;
    const Kind kind{p.type, p.count};
    const Candidate candidate{gain_per_device(p), entry.job};
    if (candidates_[kind].insert(candidate).second) entry.candidates.emplace_back(kind, candidate);
  }
}

std::optional<std::size_t> GreedyIndex::most_extra(const DeviceType& type) const {
  const auto at = holders_.find(type);
  if (at == holders_.end()) return std::nullopt;
  // The last holder has the most extra devices and, of equals, the largest number.
  return at->second.rbegin()->second.second;
}

void GreedyIndex::hold(const ClusterView& view, std::size_t slot, const DeviceSet& held) {
  Entry& entry = entries_[slot];
  erase_extra(entry);
  enter_extra(entry, view.jobs[slot], held);
}

}  // namespace es::scheduler
