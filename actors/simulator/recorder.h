#pragma once
// Recorder: what happened in a simulation, as it happens, for the report. Pure bookkeeping; times
// in seconds of the trace, and they do not fall.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/base/device.h"

namespace es::actors::simulator {

// Of one job. A time < 0: it has not happened.
struct JobResult {
  double submit_s = 0;
  double first_step_s = -1;
  double end_s = -1;
  double waiting_s = 0;         // submitted, and without any device
  double device_s = 0;          // devices x seconds held
  std::uint32_t rescales = 0;   // changes of its devices after its first start
  double rescale_s = 0;         // time in which it stood still for them, with devices
  std::uint32_t scale_ins = 0;  // it went on with fewer devices, or was left with none
  double lost_s = 0;            // of its training, in vain or done again after failures
  double sharing_job_s = 0;     // integral over its life of the number of jobs in the cluster
};

// The cluster between two changes.
struct Sample {
  double time_s = 0;
  std::vector<std::uint32_t> held, computing;  // devices, by type
  std::uint32_t waiting = 0;                   // jobs without any device
  std::uint32_t claimed = 0;                   // devices of serving jobs
};

class Recorder {
 public:
  Recorder(DeviceSet cluster, std::size_t jobs);

  void submitted(std::size_t job, double now_s);
  void ended(std::size_t job, double now_s);
  void held(std::size_t job, const DeviceType& type, int change, double now_s);
  // The devices on which the job steps from now on; none: it stands still.
  void stepping(std::size_t job, const DeviceSet& devices, double now_s);
  void claimed(int change, double now_s);
  // So much of the job's training was in vain.
  void lost(std::size_t job, double seconds) { jobs_[job].lost_s += seconds; }

  const std::vector<JobResult>& jobs() const { return jobs_; }
  const std::vector<DeviceType>& types() const { return types_; }
  // One for each change, at least a second apart, the last one at the last change.
  const std::vector<Sample>& samples() const { return samples_; }
  // Integrals over time, devices x seconds by type.
  const std::vector<double>& held_device_s() const { return held_device_s_; }
  const std::vector<double>& computing_device_s() const { return computing_device_s_; }
  std::uint32_t held_now() const;

 private:
  struct Life {
    std::uint32_t held = 0;
    double since_s = 0;     // of the last change of `held`
    double stopped_s = -1;  // stands still since then, or < 0
    double job_s_at_submit = 0;
    DeviceSet stepping;
    std::uint32_t stepped = 0;  // devices with which it made its last step
    bool is_over = false;
  };
  void advance(double now_s);
  void settle(std::size_t job, double now_s);
  std::size_t index_of(const DeviceType& type) const;
  void sample(double now_s);

  std::vector<DeviceType> types_;
  std::vector<JobResult> jobs_;
  std::vector<Life> lives_;
  std::vector<Sample> samples_;
  Sample now_;
  std::vector<double> held_device_s_, computing_device_s_;
  double job_s_ = 0;  // integral of the number of jobs
  std::uint32_t present_ = 0;
};

}  // namespace es::actors::simulator
