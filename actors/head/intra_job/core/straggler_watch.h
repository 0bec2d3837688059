#pragma once
// StragglerWatch finds the devices of a job that are slower than they should be, from the times
// that their workers measure. Pure: no clock, no I/O, not thread-safe.
//
// A report is the mean time of a device's local steps over kReportSeconds of work, or over one
// global step if that takes longer. So a hiccup of a millisecond in a tiny job is not a report. The
// first step of a process is not counted. The slowness of a report is the larger of
//
//   report / median of the newest reports of the other members of its type
//   report / usual report of the device, divided by the same ratio of the other members (median, at
//            least 1), so that a cause that slows all of them down makes no straggler
//
// A device is named as slow after kSlowReports reports in a row with a slowness of at least kSlow.
// It is cleared after the same number below kUsual. Between the two limits nothing changes. The
// usual report is a moving mean of the reports that were less than kSlow times as long. It counts
// from the third one on. It is learnt again when the members change, because devices of one machine
// slow each other down; a named device keeps it.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "actors/base/protocol/core/messages.h"

namespace es::actors::intra_job {

class StragglerWatch {
 public:
  static constexpr double kReportSeconds = 0.25;
  static constexpr double kSlow = 2.0;
  static constexpr double kUsual = 1.4;
  static constexpr int kSlowReports = 3;

  struct Measurement {
    DeviceId device;
    Incarnation worker;
    std::uint64_t local_steps = 0;  // of one or several global steps, >= 1
    double seconds = 0;             // mean time of one local step, > 0
  };
  enum class Change { kNone, kNamed, kCleared };
  struct Report {
    double seconds = 0;   // per local step
    double slowness = 1;  // see above; 1 if there is nothing to compare with
    Change change = Change::kNone;
  };
  // Returns a report if the measurement completes one. `members` are the devices of the placement.
  std::optional<Report> add(const Measurement& measured, std::span<const DeviceId> members);

  // Returns how many times slower the device is than it should be: 1 or, for a named device, the
  // median slowness of its newest kSlowReports reports. The value follows this median in steps of a
  // quarter, so that noise changes nothing.
  double factor(const DeviceId& device) const;
  // Returns the newest report of the device, per local step; nullopt before the first one.
  std::optional<double> seconds(const DeviceId& device) const;

 private:
  struct Device {
    Incarnation worker;
    double work_seconds = 0;  // of the report that is being made
    std::uint64_t local_steps = 0;
    std::optional<double> last;  // newest report
    std::optional<double> usual;
    int usual_reports = 0;           // number of reports in the moving mean
    std::vector<double> slownesses;  // newest kSlowReports, oldest first
    double factor = 1;               // above 1: the device is named
  };
  double slowness(const DeviceId& device, std::span<const DeviceId> members) const;
  void follow_members(std::span<const DeviceId> members);
  static void learn_usual(Device& device);
  static Change judge(Device& device);

  std::map<DeviceId, Device> devices_;
  std::set<DeviceId> members_;  // of the newest measurement
};

}  // namespace es::actors::intra_job
