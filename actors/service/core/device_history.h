#pragma once
// What each device did over time, in a bounded number of points. Not thread-safe.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/service/core/bounded_sums.h"

namespace es::actors::http {

// What is known of a device at one time. Unknown values are no zeros.
struct DeviceSample {
  bool held = false;                    // by a job or a claim
  std::optional<double> computing;      // share of the time in local steps, 0 to 1
  std::optional<double> peak_rss_mib;   // largest resident set of its process
  std::optional<double> sent_bytes_ps;  // bulk data that it sends to other workers each second
};

struct DevicePoint {
  std::uint64_t unix_ms = 0;                                     // of its last sample
  double held = 0;                                               // share of its samples
  std::optional<double> computing, peak_rss_mib, sent_bytes_ps;  // means of those that are known
};

// What a device has sent, from one sample to the next.
struct SentBytes {
  std::uint64_t incarnation = 0;  // the process that counts
  std::uint64_t unix_ms = 0;
  std::uint64_t bytes = 0;
};

class DeviceHistory {
 public:
  using Key = std::pair<std::string, std::string>;  // node, and device such as "v100#3"

  // Later samples of more devices are not kept.
  DeviceHistory(std::size_t points_max, std::size_t devices_max)
      : points_max_(points_max), devices_max_(devices_max) {}

  void add(const Key& device, std::uint64_t unix_ms, const DeviceSample& sample);
  // Forgets all devices but these.
  void keep_only(const std::set<Key>& devices);
  // Bytes per second since the last call for this device; nullopt: it is the first one of this
  // process.
  std::optional<double> rate(const Key& device, const SentBytes& sent);
  // The points of the devices of a node, by device.
  std::map<std::string, std::vector<DevicePoint>> of_node(const std::string& node) const;

 private:
  struct Mean {
    double sum = 0;
    std::uint64_t count = 0;
    void add(const Mean& other) {
      sum += other.sum;
      count += other.count;
    }
  };
  struct Sum {
    std::uint64_t unix_ms = 0, count = 0;
    double held = 0;
    Mean computing, peak_rss_mib, sent_bytes_ps;
    void add(const Sum& other);
  };
  static Mean mean_of(const std::optional<double>& value);
  static std::optional<double> value_of(const Mean& mean);

  std::size_t points_max_, devices_max_;
  std::map<Key, BoundedSums<Sum>> devices_;
  std::map<Key, SentBytes> sent_;
};

}  // namespace es::actors::http
