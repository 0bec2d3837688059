#pragma once
// What a job is expected to lose by communication before anything of it is measured: what other
// jobs of the same cluster lose. Without it a job that waits for hours seems to be several times
// shorter than it is, and begins too late.
//
// A job counts with one number, its seconds for each further device (sync.h). It is 0 if the job
// has run on several devices and its devices did not wait for each other visibly (sync_watch.h).
// The expectation is the median of the newest kJobs jobs (of two middle values the lower one), once
// there are kJobsMin. So most jobs must have lost something before any job is expected to, and one
// job with much communication changes nothing. The expectation keeps its value until the median
// differs by more than kChange of it, so that rankings do not change all the time.
//
// The seconds are not scaled by the duration of a step: they follow from what is sent and from the
// network, and not from what a device computes meanwhile.
//
// Pure: not thread-safe.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/model/sync.h"

namespace es::scheduler {

// Seconds of a global step for each further device by the last point of the curve; >= 0, 0 if no
// point has more than one device.
double seconds_per_device(const SyncCurve& curve);

class SyncPrior {
 public:
  static constexpr std::size_t kJobs = 64;
  static constexpr std::size_t kJobsMin = 3;
  static constexpr double kChange = 0.25;

  // Replaces what the job was known to lose. Returns true if the expectation changes by that.
  // REQUIRES: seconds >= 0 and finite. `job` is any number that identifies the job.
  bool add(std::uint64_t job, double seconds);
  // The expectation: seconds of a global step for each further device, >= 0; 0: none is expected.
  double seconds() const { return seconds_; }

 private:
  struct Known {
    std::uint64_t job;
    double seconds;
  };
  std::vector<Known> newest_;  // oldest first
  double seconds_ = 0;
};

}  // namespace es::scheduler
