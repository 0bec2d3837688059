#pragma once
// StragglerWatch: which of a job's devices are slower than they should be, from what their workers
// measure. Pure: no clock, no I/O, not thread-safe.
//
// A report is the mean of a device's local steps over kReportSeconds of work, or of one global step
// where that is longer; so a hiccup of a millisecond in a tiny job is not a report. What the first
// step of a process takes is not counted. The slowness of a report is the larger of
//
//   report / median of the newest reports of the other members of its type
//   report / what is usual for the device, divided by what that is for the other members (median,
//            at least 1): what slows all of them down is no straggler
//
// A device is named after kSlowReports reports in a row with slowness kSlow or more, and cleared
// after as many below kUsual; between the two nothing changes. What is usual is a moving mean of
// its reports that were not kSlow times as long, from the third one on. It is learnt anew when the
// members change, since devices of one machine slow each other down; a named device keeps it.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "actors/protocol/messages.h"

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
    std::uint64_t local_steps = 0;  // of one global step or a few, >= 1
    double seconds = 0;             // mean of these, > 0
  };
  enum class Change { kNone, kNamed, kCleared };
  struct Report {
    double seconds = 0;   // per local step
    double slowness = 1;  // as above; 1 where nothing is known to compare with
    Change change = Change::kNone;
  };
  // A report when the measurement completes one. `members`: the devices of the placement.
  std::optional<Report> add(const Measurement& measured, std::span<const DeviceId> members);

  // How many times slower than it should be: 1, or of a named device the median of its newest
  // kSlowReports reports, which follows them in steps of a quarter so that noise moves nothing.
  double factor(const DeviceId& device) const;
  // Of the newest report, per local step; none before the first.
  std::optional<double> seconds(const DeviceId& device) const;

 private:
  struct Device {
    Incarnation worker;
    double work_seconds = 0;  // of the report that is being made
    std::uint64_t local_steps = 0;
    std::optional<double> last;  // newest report
    std::optional<double> usual;
    int usual_reports = 0;           // that it was made from
    std::vector<double> slownesses;  // newest kSlowReports, oldest first
    double factor = 1;               // above 1: named
  };
  double slowness(const DeviceId& device, std::span<const DeviceId> members) const;
  void follow_members(std::span<const DeviceId> members);
  static void learn_usual(Device& device);
  static Change judge(Device& device);

  std::map<DeviceId, Device> devices_;
  std::set<DeviceId> members_;  // of the newest measurement
};

}  // namespace es::actors::intra_job
