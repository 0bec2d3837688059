#include "actors/service/core/device_history.h"

#include <utility>

namespace es::actors::http {

void DeviceHistory::Sum::add(const Sum& other) {
  unix_ms = other.unix_ms;
  count += other.count;
  held += other.held;
  computing.add(other.computing);
  peak_rss_mib.add(other.peak_rss_mib);
  sent_bytes_ps.add(other.sent_bytes_ps);
}

DeviceHistory::Mean DeviceHistory::mean_of(const std::optional<double>& value) {
  return value ? Mean{*value, 1} : Mean{};
}

std::optional<double> DeviceHistory::value_of(const Mean& mean) {
  if (mean.count == 0) return {};
  return mean.sum / double(mean.count);
}

void DeviceHistory::add(const Key& device, std::uint64_t unix_ms, const DeviceSample& sample) {
  if (devices_.size() >= devices_max_ && !devices_.contains(device)) return;
  auto& sums = devices_.try_emplace(device, points_max_).first->second;
  sums.add({.unix_ms = unix_ms,
            .count = 1,
            .held = sample.held ? 1.0 : 0.0,
            .computing = mean_of(sample.computing),
            .peak_rss_mib = mean_of(sample.peak_rss_mib),
            .sent_bytes_ps = mean_of(sample.sent_bytes_ps)});
}

void DeviceHistory::keep_only(const std::set<Key>& devices) {
  std::erase_if(devices_, [&](const auto& entry) { return !devices.contains(entry.first); });
  std::erase_if(sent_, [&](const auto& entry) { return !devices.contains(entry.first); });
}

std::optional<double> DeviceHistory::rate(const Key& device, const SentBytes& sent) {
  const auto [at, first] = sent_.try_emplace(device, sent);
  const SentBytes before = std::exchange(at->second, sent);
  if (first || before.incarnation != sent.incarnation || sent.unix_ms <= before.unix_ms ||
      sent.bytes < before.bytes)
    return {};
  return 1000 * double(sent.bytes - before.bytes) / double(sent.unix_ms - before.unix_ms);
}

std::map<std::string, std::vector<DevicePoint>> DeviceHistory::of_node(
    const std::string& node) const {
  std::map<std::string, std::vector<DevicePoint>> found;
  for (auto at = devices_.lower_bound({node, {}}); at != devices_.end(); ++at) {
    if (at->first.first != node) break;
    std::vector<DevicePoint>& points = found[at->first.second];
    for (const Sum& s : at->second.sums())
      points.push_back({.unix_ms = s.unix_ms,
                        .held = s.held / double(s.count),
                        .computing = value_of(s.computing),
                        .peak_rss_mib = value_of(s.peak_rss_mib),
                        .sent_bytes_ps = value_of(s.sent_bytes_ps)});
  }
  return found;
}

}  // namespace es::actors::http
