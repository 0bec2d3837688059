#include "actors/head/cluster_scheduler/core/device_trials.h"

#include <algorithm>

#include "actors/base/protocol/core/instant.h"
#include "scheduler/model/device_sets.h"

namespace es::actors {
namespace {

Instant instant(double seconds) {
  return std::chrono::duration_cast<Instant>(std::chrono::duration<double>(seconds));
}

// A set of devices with which the job can run, made of those that it holds and of others that it
// can be given. A policy counts the free devices of a type, and would choose a type of which the
// job can be given too few. The set that the job has if there is none.
DeviceSet minimum_of(const scheduler::JobView& view, const DeviceSet& reachable) {
  std::vector<DeviceCount> types = reachable.counts;
  std::ranges::stable_sort(types, std::ranges::greater(), &DeviceCount::count);
  if (!view.mix_types && view.held.counts.size() > 1) return view.held;
  if (!view.mix_types && !view.held.empty())
    std::erase_if(types, [&](const DeviceCount& c) { return view.held.count_of(c.type) == 0; });
  if (!view.mix_types && types.size() > 1) types.resize(1);
  DeviceSet set = view.held;
  for (const DeviceCount& c : types)
    if (const std::uint32_t missing = view.min_devices - set.total(); missing > 0)
      set.add(c.type, std::min(missing, c.count));
  return set.total() < view.min_devices ? view.held : set;
}

}  // namespace

void DeviceTrials::failed(const Candidate& candidate, const protocol::DeviceFailed& message,
                          double now_s) {
  std::set<std::string> elsewhere = pool_.nodes_with(candidate.types);
  elsewhere.erase(message.device.node);
  const std::set<DeviceId>& held = pool_.held(candidate.job);
  const bool holds_others = held.size() > held.count(message.device);
  const DeviceFaults::Ruling ruling =
      faults_.failed(candidate.job, message, holds_others || !elsewhere.empty(), instant(now_s));
  if (ruling.back) pool_.clear_timed(*ruling.back);
  if (!ruling.end) return;
  const double until_s = in_seconds(*ruling.end);
  const std::vector<DeviceId> aside =
      ruling.whole_node ? pool_.devices_of(message.device.node) : std::vector{message.device};
  for (const DeviceId& device : aside) pool_.suspect(device, message.reason, until_s);
}

void DeviceTrials::work(const JobId& job, const std::vector<DeviceId>& devices) {
  for (const DeviceId& device : devices) pool_.clear_timed(device);
  bring_back(faults_.work(job, devices));
}

void DeviceTrials::forgive(const std::string& node) {
  faults_.forget(node);
  pool_.clear_timed(node);
}

void DeviceTrials::bring_back(const std::vector<DeviceFaults::Back>& back) {
  for (const auto& [node, device] : back) {
    if (device)
      pool_.clear_timed(*device);
    else
      pool_.clear_timed(node);
  }
}

double DeviceTrials::next_end_s(double now_s) const {
  double next_s = pool_.next_clear_s().value_or(scheduler::kNever.count());
  if (const auto end = faults_.next_end(instant(now_s)))
    next_s = std::min(next_s, in_seconds(*end));
  return next_s;
}

std::vector<std::pair<std::string, double>> DeviceTrials::cut_from(const std::string& node,
                                                                   double now_s) const {
  std::vector<std::pair<std::string, double>> nodes;
  for (const auto& [other, end] : faults_.cut_from(node, instant(now_s)))
    nodes.emplace_back(other, in_seconds(end));
  return nodes;
}

bool DeviceTrials::is_set_aside(const DeviceId& device, double now_s) const {
  return pool_.is_suspect(device) || !cut_from(device.node, now_s).empty();
}

bool DeviceTrials::has_cuts(double now_s) const {
  return faults_.has_cuts(instant(now_s));
}

bool DeviceTrials::is_limited(const JobId& job, double now_s) const {
  return faults_.has_failed(job) || has_cuts(now_s);
}

DevicePool::Wish DeviceTrials::wish_of(const Candidate& candidate, double now_s) const {
  // A spot node may take the last devices of a job away.
  DevicePool::Wish wish{.on_spot = candidate.suspendable};
  const bool limited = is_limited(candidate.job, now_s);
  if (!limited && !candidate.lacks_room) return wish;
  const Instant now = instant(now_s);
  std::set<std::string> avoided;
  if (faults_.has_failed(candidate.job))
    avoided = faults_.avoided(candidate.job, pool_.nodes_with(candidate.types), now);
  wish.avoids = [nodes = std::move(avoided), lacks_room = candidate.lacks_room](
                    const std::string& node, const DeviceType& type) {
    return nodes.contains(node) || (lacks_room && lacks_room(node, type));
  };
  if (!limited) return wish;
  wish.cut = [this, now](const std::string& a, const std::string& b) {
    return faults_.are_cut(a, b, now);
  };
  return wish;
}

void DeviceTrials::limit(const Candidate& candidate, scheduler::JobView& view, double now_s) const {
  const DevicePool::Wish wish = wish_of(candidate, now_s);
  DeviceSet reachable;
  bool all = true;
  // A job may be pinned to other types than those that are chosen for it.
  std::vector<DeviceType> types = view.types;
  if (view.pinned)
    for (const DeviceCount& c : view.pinned->counts)
      if (std::ranges::find(types, c.type) == types.end()) types.push_back(c.type);
  for (const DeviceType& type : types) {
    const std::uint32_t count = pool_.reachable(view.id, type, wish);
    all = all && count == pool_.free_devices().count_of(type);
    if (count > 0) reachable.add(type, count);
  }
  if (all) return;
  std::erase_if(view.proposals, [&](const scheduler::Proposal& proposal) {
    return proposal.count > reachable.count_of(proposal.type);
  });
  const std::uint32_t most = view.held.total() + reachable.total();
  const bool pinned_out =
      view.pinned &&
      !scheduler::beyond(scheduler::beyond(*view.pinned, view.held), reachable).empty();
  if (pinned_out || (!view.pinned && most < view.min_devices)) view.pinned = view.held;
  if (!view.pinned && view.held.total() < view.min_devices)
    view.pinned = minimum_of(view, reachable);
  view.max_devices = std::max(view.min_devices, std::min(view.max_devices, most));
}

}  // namespace es::actors
