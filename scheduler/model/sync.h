#pragma once
// What a job loses by communication: the seconds that a global step takes longer than its slowest
// device computes, as a function of the number of devices n.
//
//   step(n) = max_i A_i / C_i + sync(n)
//
// sync is measured at the numbers of devices that were tried, and this curve connects the points:
//
//   sync(1)                  0 if it was not measured
//   at a point               what was measured, but never less than with fewer devices
//   between two points       the straight line
//   beyond the last point k  sync(1) + (sync(k) - sync(1)) * (n - 1) / (k - 1); sync(1) if k = 1
//
// The last line is the term of a star and of a ring with a latency for each link, where every
// further device costs the same. Pollux (OSDI '21) fits the same form, alpha + beta * (n - 2), to
// measured steps. A real curve is usually concave and so lies above a chord of it. Fewer devices
// than were tried are therefore rather overrated than underrated: they are tried if the curve makes
// them faster, and then they are a point of the curve (sync_watch.h).
//
// Values; thread-safe.
#include <cstdint>
#include <vector>

namespace es::scheduler {

struct SyncPoint {
  std::uint32_t devices = 1;  // >= 1
  double seconds = 0;         // of a global step, >= 0 and finite
  bool operator==(const SyncPoint&) const = default;
};

class SyncCurve {
 public:
  SyncCurve() = default;
  // Points in any order. Of two with the same number of devices the last one counts. A point that
  // is not valid is ignored.
  explicit SyncCurve(const std::vector<SyncPoint>& points);

  // True if no communication was ever measured. Then seconds() is 0 everywhere.
  bool empty() const { return points_.empty(); }
  // REQUIRES: devices >= 1.
  double seconds(std::uint32_t devices) const;
  // The points, ascending by devices.
  const std::vector<SyncPoint>& points() const { return points_; }
  // Adds a point, or replaces the one with the same number of devices. REQUIRES: it is valid.
  void set(const SyncPoint& point);
  bool has(std::uint32_t devices) const;
  bool operator==(const SyncCurve&) const = default;

 private:
  std::vector<SyncPoint> points_;
};

}  // namespace es::scheduler
