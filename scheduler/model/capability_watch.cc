#include "scheduler/model/capability_watch.h"

#include <algorithm>
#include <cmath>

namespace es::scheduler {

bool capability_differs(double known, double measured) {
  return std::abs(measured - known) > kCapabilityChangeMin * known;
}

std::optional<double> CapabilityWatch::add(const DeviceType& type, double steps_per_second,
                                           double known, bool measured) {
  std::vector<double>& newest = newest_[type];
  newest.push_back(steps_per_second);
  if (newest.size() > kCapabilityWindow) newest.erase(newest.begin());
  std::vector<double> sorted = newest;
  std::sort(sorted.begin(), sorted.end());
  // Of two middle values the lower one.
  const double median = sorted[(sorted.size() - 1) / 2];
  // Any measurement is better than an assumption, so the first report counts at once.
  if (!measured) return median;
  if (newest.size() < kCapabilityReportsMin || !capability_differs(known, median))
    return std::nullopt;
  return median;
}

}  // namespace es::scheduler
