#include "actors/head/intra_job/core/job_speeds.h"

#include <algorithm>

namespace es::actors::intra_job {

void JobSpeeds::learn(const std::vector<protocol::Capability>& capabilities) {
  for (const protocol::Capability& c : capabilities) {
    // The speed that the job has measured itself stays until it measures another one.
    if (own_.contains(c.type)) continue;
    capabilities_[c.type] = c.steps_per_second;
    if (c.measured) measured_.insert(c.type);
  }
}

std::optional<StragglerWatch::Report> JobSpeeds::add(const StragglerWatch::Measurement& measured,
                                                     std::span<const DeviceId> members) {
  return stragglers_.add(measured, members);
}

std::optional<double> JobSpeeds::update_type(const DeviceType& type,
                                             const StragglerWatch::Report& report) {
  // A slow device says nothing about its type. Its ranks follow from its own slowness.
  if (report.slowness >= StragglerWatch::kUsual) return std::nullopt;
  const double steps_per_second = 1.0 / report.seconds;
  own_.insert(type);
  const auto known = capabilities_.find(type);
  const auto changed = watch_.add(type, steps_per_second,
                                  known == capabilities_.end() ? steps_per_second : known->second,
                                  is_measured(type));
  if (!changed) return std::nullopt;
  capabilities_[type] = *changed;
  measured_.insert(type);
  return changed;
}

void JobSpeeds::learn_sync(const std::vector<scheduler::SyncPoint>& points) {
  for (const scheduler::SyncPoint& point : points)
    if (!sync_measured_.contains(point.devices)) sync_.set(point);
}

std::optional<scheduler::SyncPoint> JobSpeeds::add_step(double step_seconds,
                                                        std::span<const DeviceId> devices,
                                                        std::span<const RankRange> ranks) {
  double compute_seconds = 0;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const auto local = local_step_seconds(devices[d]);
    if (!local) return std::nullopt;
    compute_seconds = std::max(compute_seconds, ranks[d].size() * *local);
  }
  const auto n = static_cast<std::uint32_t>(devices.size());
  const auto point = sync_watch_.add(n, step_seconds, compute_seconds, sync_);
  if (!point) return std::nullopt;
  sync_.set(*point);
  sync_measured_.insert(n);
  const std::uint32_t max_p = std::ranges::max(ranks, {}, &RankRange::end).end;
  const double crossings = scheduler::mean_crossings(ranks, wire(devices), max_p);
  if (crossings > 0) seconds_per_crossing_ = point->seconds / crossings;
  return point;
}

std::vector<scheduler::SyncPoint> JobSpeeds::measured_sync() const {
  std::vector<scheduler::SyncPoint> measured = sync_.points();
  std::erase_if(measured, [this](const scheduler::SyncPoint& point) {
    return !sync_measured_.contains(point.devices);
  });
  return measured;
}

std::vector<protocol::Capability> JobSpeeds::list() const {
  std::vector<protocol::Capability> list;
  for (const auto& [type, steps_per_second] : capabilities_)
    list.push_back({type, steps_per_second, is_measured(type)});
  return list;
}

std::vector<protocol::Capability> JobSpeeds::list_own() const {
  std::vector<protocol::Capability> own = list();
  std::erase_if(own, [this](const protocol::Capability& c) { return !own_.contains(c.type); });
  return own;
}

double JobSpeeds::device_capability(const DeviceId& device) const {
  const auto at = capabilities_.find(device.type);
  const double of_type = at == capabilities_.end() ? 1.0 : at->second;
  // At D0 the ranks of a device decide the bits, so they must not depend on how slow it is today.
  if (level_ == DeterminismLevel::kD0) return of_type;
  return of_type / slowness(device);
}

scheduler::WireCost JobSpeeds::wire(std::span<const DeviceId> devices) const {
  if (level_ == DeterminismLevel::kD0) return {};
  scheduler::WireCost cost{.hosts = {}, .seconds_per_crossing = seconds_per_crossing_};
  for (const DeviceId& device : devices) cost.hosts.push_back(device.node);
  return cost;
}

std::vector<RankRange> JobSpeeds::assign_ranks(std::uint32_t max_p,
                                               std::span<const DeviceId> devices) const {
  std::vector<double> capabilities;
  for (const DeviceId& device : devices) capabilities.push_back(device_capability(device));
  return scheduler::assign_ranks(capabilities, max_p, wire(devices));
}

}  // namespace es::actors::intra_job
