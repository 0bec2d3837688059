// ClusterCore: devices on which jobs cannot work (device_faults.h). The pool withholds what is set
// aside, so a policy sees neither. What only one job is not given, and nodes that cannot reach each
// other, are no matter of a policy either: the job is shown as one that wants no more than it can
// be given.
#include <algorithm>
#include <utility>

#include "actors/base/protocol/core/durations.h"
#include "actors/head/cluster_scheduler/core/cluster_core.h"
#include "actors/head/cluster_scheduler/core/job_bounds.h"

namespace es::actors {
namespace {

Instant instant(double seconds) {
  return std::chrono::duration_cast<Instant>(std::chrono::duration<double>(seconds));
}

}  // namespace

// The nodes on which the job could be tried. A job that wants exactly these devices cannot be tried
// on those of other types.
std::set<std::string> ClusterCore::nodes_for(const Job& job) const {
  std::vector<DeviceType> types = usable_types(job.admitted, all_types_);
  if (job.demand && job.demand->exact)
    std::erase_if(types,
                  [&](const DeviceType& type) { return job.demand->exact->count_of(type) == 0; });
  return pool_.nodes_with(types);
}

void ClusterCore::on_device_failed(Job& job, const protocol::DeviceFailed& message) {
  const JobId& id = job.admitted.job;
  std::set<std::string> elsewhere = nodes_for(job);
  elsewhere.erase(message.device.node);
  const std::set<DeviceId>& held = pool_.held(id);
  const bool holds_others = held.size() > held.count(message.device);
  const DeviceFaults::Ruling ruling =
      faults_.failed(id, message, holds_others || !elsewhere.empty(), instant(now_s_));
  touch(job);
  if (ruling.back) pool_.clear_timed(*ruling.back);
  if (!ruling.end) return;
  const double until_s = in_seconds(*ruling.end);
  const std::vector<DeviceId> aside =
      ruling.whole_node ? pool_.devices_of(message.device.node) : std::vector{message.device};
  for (const DeviceId& device : aside) pool_.suspect(device, message.reason, until_s);
}

void ClusterCore::on_devices_work(Job& job, const protocol::DevicesWork& message) {
  for (const DeviceId& device : message.devices) pool_.clear_timed(device);
  bring_back(faults_.work(job.admitted.job, message.devices));
  touch(job);
}

void ClusterCore::on_device_cleared(const cluster::DeviceCleared& event) {
  if (!pool_.clear(event.device)) ++ignored_events_;
  forgive(event.device.node);
}

void ClusterCore::forgive(const std::string& node) {
  faults_.forget(node);
  pool_.clear_timed(node);
}

void ClusterCore::bring_back(const std::vector<DeviceFaults::Back>& back) {
  for (const auto& [node, device] : back) {
    if (device)
      pool_.clear_timed(*device);
    else
      pool_.clear_timed(node);
  }
}

double ClusterCore::next_pause_end_s() const {
  double next_s = pool_.next_clear_s().value_or(scheduler::kNever.count());
  if (const auto end = faults_.next_end(instant(now_s_)))
    next_s = std::min(next_s, in_seconds(*end));
  return next_s;
}

std::vector<std::pair<std::string, double>> ClusterCore::cut_from(const std::string& node) const {
  std::vector<std::pair<std::string, double>> nodes;
  for (const auto& [other, end] : faults_.cut_from(node, instant(now_s_)))
    nodes.emplace_back(other, in_seconds(end));
  return nodes;
}

bool ClusterCore::is_set_aside(const DeviceId& device) const {
  return pool_.is_suspect(device) || !cut_from(device.node).empty();
}

bool ClusterCore::is_limited(const Job& job) const {
  return faults_.has_failed(job.admitted.job) || faults_.has_cuts(instant(now_s_));
}

// What such a job can be given depends on all free devices, not only on what has changed for it.
void ClusterCore::touch_limited_jobs() {
  // Those that were limited in the last view, and may not be any more.
  for (const JobId& id : std::exchange(limited_, {}))
    if (Job* job = find(id)) touch(*job);
  for (const JobId& id : faults_.failed_jobs()) touch(*find(id));
  if (!faults_.has_cuts(instant(now_s_))) return;
  for (auto& [number, job] : jobs_) touch(job);
}

DevicePool::Wish ClusterCore::wish_of(const Job& job) const {
  // A spot node may take the last devices of a job away.
  DevicePool::Wish wish{.on_spot = job.admitted.resources.suspendable};
  if (!is_limited(job)) return wish;
  const Instant now = instant(now_s_);
  if (faults_.has_failed(job.admitted.job)) {
    const auto usable = nodes_for(job);
    wish.avoids = [nodes = faults_.avoided(job.admitted.job, usable, now)](const auto& node) {
      return nodes.contains(node);
    };
  }
  wish.cut = [this, now](const std::string& a, const std::string& b) {
    return faults_.are_cut(a, b, now);
  };
  return wish;
}

// Whether the job can use what it holds now, although it is less than was decided.
bool ClusterCore::may_have_part(const Job& job) const {
  return !job.demand->exact &&
         pool_.held(job.admitted.job).size() >= view_.jobs[job.slot].min_devices;
}

// Takes back what it was granted just now, beyond these devices.
void ClusterCore::take_again(const Job& job, const std::set<DeviceId>& but) {
  const std::set<DeviceId> held = pool_.held(job.admitted.job);
  for (const DeviceId& device : held)
    if (!but.contains(device)) pool_.release(job.admitted.job, device);
}

// A grant that the pool could not carry out would be decided again and again, and would keep the
// devices from other jobs.
void ClusterCore::limit_by_faults(const Job& job, scheduler::JobView& view) {
  if (!is_limited(job)) return;
  limited_.insert(view.id);
  const DevicePool::Wish wish = wish_of(job);
  DeviceSet reachable;
  bool all = true;
  for (const DeviceType& type : view.types) {
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
  view.max_devices = std::max(view.min_devices, std::min(view.max_devices, most));
}

}  // namespace es::actors
