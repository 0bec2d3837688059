#pragma once
// When a measured speed becomes the C_i of a device type. Pure: no clock, not thread-safe.
//
// A report is the speed of one device over a while. With m = the median of the newest
// kCapabilityWindow reports of the type (the lower one of two middle values):
//
//   C := m   when C was only assumed
//   C := m   when |m - C| > kCapabilityChangeMin * C, and there are kCapabilityReportsMin reports
//
// So an outlier changes nothing, a lasting change is known after three reports, and what is within
// the bound neither moves ESTs nor ranks plans anew.
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "scheduler/model.h"

namespace es::scheduler {

inline constexpr double kCapabilityChangeMin = 0.10;
inline constexpr std::size_t kCapabilityWindow = 5;
inline constexpr std::size_t kCapabilityReportsMin = 3;

// Whether two speeds of one type differ by more than the bound.
bool capability_differs(double known, double measured);

class CapabilityWatch {
 public:
  // The new C of the type, when it is to be changed. `measured`: C is a measurement already.
  // REQUIRES: steps_per_second > 0, known > 0.
  std::optional<double> add(const DeviceType& type, double steps_per_second, double known,
                            bool measured);
  // The devices are others from now on, and devices of one machine slow each other down.
  void restart() { newest_.clear(); }

 private:
  std::map<DeviceType, std::vector<double>> newest_;  // oldest first
};

}  // namespace es::scheduler
