#include "scheduler/policy/common/prices.h"

namespace es::scheduler {

double Prices::of(const DeviceType& type, bool on_spot_node) const {
  if (on_spot_node)
    if (const auto spot = spot_per_hour.find(type); spot != spot_per_hour.end())
      return spot->second;
  const auto at = per_hour.find(type);
  return at == per_hour.end() ? 0 : at->second;
}

double Prices::of(const DeviceSet& devices) const {
  double sum = 0;
  for (const DeviceCount& c : devices.counts) sum += c.count * of(c.type);
  return sum;
}

}  // namespace es::scheduler
