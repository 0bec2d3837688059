#include "scheduler/model/sync_watch.h"

#include <algorithm>
#include <cmath>

namespace es::scheduler {

std::optional<SyncPoint> SyncWatch::add(std::uint32_t devices, double step_seconds,
                                        double compute_seconds, const SyncCurve& known) {
  newest_.push_back(step_seconds - compute_seconds);
  if (newest_.size() > kSamples) newest_.erase(newest_.begin());
  if (newest_.size() < kSamplesMin) return std::nullopt;
  std::vector<double> sorted = newest_;
  std::sort(sorted.begin(), sorted.end());
  const double median = std::max(0.0, sorted[(sorted.size() - 1) / 2]);
  const bool is_new = known.empty() ? median > kSyncMin * step_seconds
                      : !known.has(devices)
                          ? true
                          : std::abs(median - known.seconds(devices)) > kSyncChange * step_seconds;
  if (!is_new) return std::nullopt;
  return SyncPoint{devices, median};
}

}  // namespace es::scheduler
