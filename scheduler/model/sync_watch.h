#pragma once
// Measures the communication of a job (sync.h): the difference between what a global step takes and
// what its slowest device computes. Pure: not thread-safe.
//
// A sample is taken for each block of steps (step_pace.h): the mean duration of its steps, and
// max_d A_d * seconds of a local step over the devices, by their newest reports. Let m be the
// median of the newest kSamples differences (0 if it is negative; of two middle values the lower
// one). Then the point (n, m) becomes part of the curve as soon as there are kSamplesMin samples on
// the present devices, if
//
//   m > kSyncMin * duration, and no point is known          communication that can be seen at all
//   or a point is known, but none for n devices
//   or |m - known| > kSyncChange * duration
//
// So a device that becomes slow or fast between two reports changes nothing, and a job whose
// devices do not wait for each other has no curve.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/model/sync.h"

namespace es::scheduler {

class SyncWatch {
 public:
  static constexpr std::size_t kSamples = 5;
  static constexpr std::size_t kSamplesMin = 3;
  static constexpr double kSyncMin = 0.10;
  static constexpr double kSyncChange = 0.10;

  // The devices have changed.
  void restart() { newest_.clear(); }
  // Returns the new point of `known` if there is one. REQUIRES: devices >= 1, step_seconds > 0,
  // compute_seconds >= 0.
  std::optional<SyncPoint> add(std::uint32_t devices, double step_seconds, double compute_seconds,
                               const SyncCurve& known);

 private:
  std::vector<double> newest_;  // oldest first
};

}  // namespace es::scheduler
