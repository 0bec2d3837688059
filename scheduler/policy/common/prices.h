#pragma once
// What devices cost: an amount for each hour in which a job holds a device. The unit has no name;
// it may be a currency or points of an account. Values; thread-safe.
#include <map>

#include "proto/base/device.h"

namespace es::scheduler {

struct Prices {
  std::map<DeviceType, double> per_hour;  // >= 0; a type without an entry costs nothing
  // On spot nodes, >= 0; a type without an entry costs there what it costs elsewhere.
  std::map<DeviceType, double> spot_per_hour;

  bool empty() const { return per_hour.empty(); }
  // The price of one device in an hour.
  double of(const DeviceType& type, bool on_spot_node = false) const;
  // The price of these devices in an hour on nodes that are no spot nodes.
  double of(const DeviceSet& devices) const;
  bool operator==(const Prices&) const = default;
};

}  // namespace es::scheduler
