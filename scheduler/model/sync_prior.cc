#include "scheduler/model/sync_prior.h"

#include <algorithm>
#include <cmath>

namespace es::scheduler {

double seconds_per_device(const SyncCurve& curve) {
  if (curve.empty() || curve.points().back().devices == 1) return 0;
  const std::uint32_t devices = curve.points().back().devices;
  return (curve.seconds(devices) - curve.seconds(1)) / (devices - 1);
}

bool SyncPrior::add(std::uint64_t job, double seconds) {
  const auto at = std::ranges::find(newest_, job, &Known::job);
  if (at != newest_.end()) {
    if (at->seconds == seconds) return false;
    at->seconds = seconds;
  } else {
    newest_.push_back({job, seconds});
    if (newest_.size() > kJobs) newest_.erase(newest_.begin());
  }
  if (newest_.size() < kJobsMin) return false;
  std::vector<double> sorted;
  for (const Known& known : newest_) sorted.push_back(known.seconds);
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const bool changes = *middle == 0 || seconds_ == 0
                           ? *middle != seconds_
                           : std::abs(*middle - seconds_) > kChange * seconds_;
  if (changes) seconds_ = *middle;
  return changes;
}

}  // namespace es::scheduler
