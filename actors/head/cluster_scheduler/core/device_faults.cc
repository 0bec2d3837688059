#include "actors/head/cluster_scheduler/core/device_faults.h"

#include <algorithm>

namespace es::actors {

using protocol::DeviceFailed;

namespace {

// A node that cannot reach this many others is at fault, not they.
constexpr std::size_t kPartnersOfBadNode = 2;

}  // namespace

// Whether what failed on the node cannot be the fault of one device or of one job.
bool DeviceFaults::is_bad(const std::string& node) const {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return false;
  std::size_t by_node = 0;
  std::set<JobId> jobs;
  for (const auto& [device, failure] : found->second) {
    by_node += failure.by_node ? 1 : 0;
    jobs.insert(failure.job);
  }
  return by_node >= 2 || jobs.size() >= 2;
}

DeviceFaults::Ruling DeviceFaults::failed(const JobId& job, const DeviceFailed& event,
                                          bool has_choice, Instant now) {
  const std::string& node = event.device.node;
  if (event.fault == DeviceFailed::Fault::kLink && event.other != node) {
    links_.failed(std::minmax(node, event.other), now);
    return {};
  }
  const bool by_node = event.fault == DeviceFailed::Fault::kNode;
  Ruling ruling;
  if (!by_node) {
    JobFaults& faults = jobs_[job];
    faults.failed_on.insert(node);
    if (!has_choice) return {};
    faults.pauses.failed(node, now);
    if (event.fault == DeviceFailed::Fault::kUnsuited) return {};
    ruling.back = std::exchange(faults.aside, event.device);
    if (ruling.back == event.device) ruling.back.reset();
  }
  nodes_[node].insert_or_assign(event.device, Failure{job, by_node});
  if (!node_pauses_.is_remembered(node, now)) whole_.erase(node);
  ruling.whole_node = whole_.contains(node) || is_bad(node);
  if (ruling.whole_node) {
    whole_.insert(node);
    ruling.end = node_pauses_.failed(node, now);
    if (ruling.back && ruling.back->node == node) ruling.back.reset();
  } else {
    ruling.end = device_pauses_.failed(event.device, now);
  }
  return ruling;
}

std::vector<DeviceFaults::Back> DeviceFaults::work(const JobId& job,
                                                   const std::vector<DeviceId>& devices) {
  std::set<std::string> nodes;
  std::vector<Back> back;
  for (const DeviceId& device : devices) {
    device_pauses_.forget(device);
    nodes.insert(device.node);
  }
  for (const std::string& node : nodes) {
    node_pauses_.forget(node);
    nodes_.erase(node);
    if (whole_.erase(node) > 0) back.push_back({node});
  }
  links_.forget_if(
      [&](const Link& link) { return nodes.contains(link.first) && nodes.contains(link.second); });
  if (const auto found = jobs_.find(job); found != jobs_.end()) {
    JobFaults& faults = found->second;
    faults.failed_on.clear();
    for (const std::string& node : nodes) faults.pauses.forget(node);
  }
  return back;
}

// What was set aside because of this job alone is back. What a node itself has failed at stays.
std::vector<DeviceFaults::Back> DeviceFaults::ended(const JobId& job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return {};
  std::vector<Back> back;
  const std::optional<DeviceId> aside = found->second.aside;
  jobs_.erase(found);
  for (auto at = nodes_.begin(); at != nodes_.end();) {
    auto& [node, failures] = *at;
    const auto is_its = [&](const auto& entry) {
      return entry.second.job == job && !entry.second.by_node;
    };
    if (std::erase_if(failures, is_its) > 0 && !is_bad(node) && whole_.erase(node) > 0) {
      node_pauses_.forget(node);
      back.push_back({node});
    }
    at = failures.empty() ? nodes_.erase(at) : std::next(at);
  }
  if (aside && !whole_.contains(aside->node)) back.push_back({aside->node, aside});
  return back;
}

void DeviceFaults::forget(const std::string& node) {
  nodes_.erase(node);
  whole_.erase(node);
  node_pauses_.forget(node);
  device_pauses_.forget_if([&](const DeviceId& device) { return device.node == node; });
  links_.forget_if([&](const Link& link) { return link.first == node || link.second == node; });
  for (auto& [job, faults] : jobs_) {
    faults.failed_on.erase(node);
    faults.pauses.forget(node);
    if (faults.aside && faults.aside->node == node) faults.aside.reset();
  }
}

std::set<std::string> DeviceFaults::avoided(const JobId& job, const std::set<std::string>& usable,
                                            Instant now) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return {};
  const JobFaults& faults = found->second;
  std::set<std::string> nodes;
  for (const auto& [node, end] : faults.pauses.running(now)) nodes.insert(node);
  // As long as a node is untried, only that one can tell whether the program is at fault.
  const bool is_untried = std::ranges::any_of(
      usable, [&](const std::string& node) { return !faults.failed_on.contains(node); });
  if (is_untried) nodes.insert(faults.failed_on.begin(), faults.failed_on.end());
  return nodes;
}

std::vector<JobId> DeviceFaults::failed_jobs() const {
  std::vector<JobId> jobs;
  for (const auto& [job, faults] : jobs_) jobs.push_back(job);
  return jobs;
}

std::size_t DeviceFaults::partners(const std::string& node, Instant now) const {
  return cut_from(node, now).size();
}

bool DeviceFaults::are_cut(const std::string& a, const std::string& b, Instant now) const {
  if (a == b) return false;
  return links_.waits(std::minmax(a, b), now) || partners(a, now) >= kPartnersOfBadNode ||
         partners(b, now) >= kPartnersOfBadNode;
}

std::vector<std::pair<std::string, Instant>> DeviceFaults::cut_from(const std::string& node,
                                                                    Instant now) const {
  std::vector<std::pair<std::string, Instant>> others;
  for (const auto& [link, end] : links_.running(now)) {
    if (link.first == node) others.emplace_back(link.second, end);
    if (link.second == node) others.emplace_back(link.first, end);
  }
  return others;
}

std::optional<Instant> DeviceFaults::next_end(Instant now) const {
  std::optional<Instant> next = links_.first_end(now);
  for (const auto& [job, faults] : jobs_)
    if (const auto end = faults.pauses.first_end(now)) next = std::min(next.value_or(*end), *end);
  return next;
}

}  // namespace es::actors
