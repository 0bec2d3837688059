#include "scheduler/model/sync.h"

#include <algorithm>
#include <cmath>

#include "proto/base/check.h"

namespace es::scheduler {
namespace {

bool is_valid(const SyncPoint& point) {
  return point.devices >= 1 && std::isfinite(point.seconds) && point.seconds >= 0;
}

}  // namespace

SyncCurve::SyncCurve(const std::vector<SyncPoint>& points) {
  for (const SyncPoint& point : points)
    if (is_valid(point)) set(point);
}

void SyncCurve::set(const SyncPoint& point) {
  ES_CHECK(is_valid(point));
  const auto at =
      std::ranges::lower_bound(points_, point.devices, std::less<>(), &SyncPoint::devices);
  if (at != points_.end() && at->devices == point.devices) {
    *at = point;
  } else {
    points_.insert(at, point);
  }
}

bool SyncCurve::has(std::uint32_t devices) const {
  return std::ranges::binary_search(points_, devices, std::less<>(), &SyncPoint::devices);
}

double SyncCurve::seconds(std::uint32_t devices) const {
  if (points_.empty()) return 0;
  const double alone = points_.front().devices == 1 ? points_.front().seconds : 0;
  SyncPoint before{1, alone};
  for (const SyncPoint& point : points_) {
    // Measurements have errors. If a curve fell, devices without any use would seem to help.
    const double seconds = std::max(before.seconds, point.seconds);
    if (point.devices >= devices) {
      if (point.devices == before.devices) return seconds;
      const double part = double(devices - before.devices) / double(point.devices - before.devices);
      return before.seconds + (seconds - before.seconds) * part;
    }
    before = {point.devices, seconds};
  }
  if (before.devices == 1) return alone;
  return alone + (before.seconds - alone) * double(devices - 1) / double(before.devices - 1);
}

}  // namespace es::scheduler
