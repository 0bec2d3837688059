#pragma once
// SyncForecast: what jobs are expected to lose by communication until they have measured it
// (scheduler/model/sync_prior.h). A part of ClusterCore, pure. Jobs are named by their submit
// numbers. Times are seconds on the clock of the events. Not thread-safe.
#include <cstdint>
#include <utility>
#include <vector>

#include "actors/head/cluster_scheduler/core/job_times.h"
#include "scheduler/model/sync_prior.h"
#include "scheduler/policy/common/policy.h"

namespace es::actors {

class SyncForecast {
 public:
  // `is_used`: a policy asks for it. Otherwise nothing is expected, so that no decision is made
  // because of it.
  explicit SyncForecast(bool is_used) : is_used_(is_used) {}

  // A job has measured what it loses for each further device, in seconds of a global step.
  void learn(std::uint64_t number, double seconds_per_device);
  // Call it before the devices of a job change in its view. Returns whether the job has been on
  // several devices for so long without measuring anything that it loses nothing, which is learned
  // then.
  bool loses_nothing(const scheduler::JobView& view, double now_s);
  // Writes the expectation for a job. `loses_nothing`: that was true for it at some time.
  void expect(scheduler::JobView& view, bool loses_nothing);
  void forget(std::uint64_t number) { measured_by_.erase(number); }
  // Whether the expectation has changed since the last call: all jobs that have measured nothing
  // get the new one.
  bool take_changed() { return std::exchange(changed_, false); }
  // When jobs will have measured what is expected of them.
  const JobTimes& measured_by() const { return measured_by_; }

 private:
  const bool is_used_;
  scheduler::SyncPrior prior_;
  bool changed_ = false;
  JobTimes measured_by_;
};

}  // namespace es::actors
