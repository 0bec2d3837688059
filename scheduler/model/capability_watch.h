#pragma once
// Decides when a measured speed becomes the C_i of a device type. Pure: no clock; not thread-safe.
//
// A report is the speed of one device over some time. Let m be the median of the newest
// kCapabilityWindow reports of the type (of two middle values the lower one). Then:
//
//   C := m   if C was only assumed
//   C := m   if |m - C| > kCapabilityChangeMin * C and there are kCapabilityReportsMin reports
//
// So an outlier changes nothing, a lasting change is known after three reports, and a smaller
// change neither moves ESTs nor changes the ranking of plans.
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "scheduler/model/model.h"

namespace es::scheduler {

inline constexpr double kCapabilityChangeMin = 0.10;
inline constexpr std::size_t kCapabilityWindow = 5;
inline constexpr std::size_t kCapabilityReportsMin = 3;

// Whether two speeds of one type differ by more than the bound.
bool capability_differs(double known, double measured);

class CapabilityWatch {
 public:
  // Adds a report. Returns the new C of the type if it changes. `measured` says whether the known C
  // is a measurement. REQUIRES: steps_per_second > 0, known > 0.
  std::optional<double> add(const DeviceType& type, double steps_per_second, double known,
                            bool measured);
  // Forgets all reports. Called when the devices of the job change, because devices of one machine
  // can slow each other down.
  void restart() { newest_.clear(); }

 private:
  std::map<DeviceType, std::vector<double>> newest_;  // oldest first
};

}  // namespace es::scheduler
