#pragma once
// Recorder keeps what happens in a simulation, for the report. It is pure bookkeeping. Times are in
// seconds of the trace and never decrease.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/sim/core/job_spans.h"
#include "proto/base/device.h"

namespace es::actors::simulator {

// The result of one job. A time < 0 means that the event has not happened.
struct JobResult {
  double submit_s = 0;
  double first_step_s = -1;
  double end_s = -1;
  double waiting_s = 0;         // seconds since submission without any device
  double device_s = 0;          // devices x seconds held
  std::uint32_t rescales = 0;   // changes of its devices after its first start
  double rescale_s = 0;         // seconds without steps because of them, with devices
  std::uint32_t scale_ins = 0;  // changes to fewer devices or to none
  double lost_s = 0;            // seconds of training that failures made vain or that were repeated
  double sharing_job_s = 0;     // integral over its life of the number of jobs in the cluster
  double cost = 0;              // what the devices that it held have cost
  bool timed_out = false;       // it ended because its time limit was used up
  bool over_budget = false;     // it was paused because its budget was used up, and did not go on
  // Whether it has made all its steps. A job that was stopped by a limit has ended and has not.
  bool completed() const { return end_s >= 0 && !timed_out && !over_budget; }
};

// The state of the cluster between two changes.
struct Sample {
  double time_s = 0;
  std::vector<std::uint32_t> held, computing;  // number of devices, by type
  std::uint32_t waiting = 0;                   // jobs without any device
  std::uint32_t claimed = 0;                   // devices of serving jobs
};

// On how many nodes and in how many racks the devices of a job are.
struct Spread {
  std::uint32_t nodes = 0, racks = 0;
};

class Recorder {
 public:
  Recorder(DeviceSet cluster, std::size_t jobs);

  void submitted(std::size_t job, double now_s);
  void ended(std::size_t job, double now_s);
  void timed_out(std::size_t job, double now_s);
  void over_budget(std::size_t job, double now_s);
  // `price_per_hour`: of one of these devices.
  void held(std::size_t job, const DeviceType& type, int change, double now_s,
            double price_per_hour = 0);
  // The devices on which the job steps from now on; an empty set if it stands still.
  void stepping(std::size_t job, const DeviceSet& devices, double now_s, const Spread& spread = {});
  void claimed(int change, double now_s);
  // The simulation ends.
  void finish(double now_s) { spans_.finish(now_s); }
  // As JobSpans::explain().
  void explain(const std::map<std::size_t, std::string>& reasons, double now_s) {
    spans_.explain(reasons, now_s);
  }
  // The job lost the result of this many seconds of training.
  void lost(std::size_t job, double seconds) { jobs_[job].lost_s += seconds; }

  const std::vector<JobResult>& jobs() const { return jobs_; }
  const std::vector<DeviceType>& types() const { return types_; }
  const JobSpans& spans() const { return spans_; }
  std::uint32_t waiting() const { return now_.waiting; }
  // One sample for each change, at least a second apart; the last one is the state after the last
  // change.
  const std::vector<Sample>& samples() const { return samples_; }
  // Integrals over time: devices x seconds, by type.
  const std::vector<double>& held_device_s() const { return held_device_s_; }
  const std::vector<double>& computing_device_s() const { return computing_device_s_; }
  // The same, of devices that compute for jobs on several nodes, and in several racks.
  double many_nodes_device_s() const { return many_nodes_.device_s; }
  double many_racks_device_s() const { return many_racks_.device_s; }

 private:
  struct Life {
    std::uint32_t held = 0;
    std::vector<std::uint32_t> held_by_type;
    double price_per_hour = 0;  // of the held devices
    double since_s = 0;         // time of the last change of `held`
    double stopped_s = -1;      // time since which it stands still, or < 0
    double job_s_at_submit = 0;
    DeviceSet stepping;
    Spread spread;              // of `stepping`
    std::uint32_t stepped = 0;  // number of devices with which it made its last step
    bool is_over = false;
  };
  void advance(double now_s);
  void settle(std::size_t job, double now_s);
  std::size_t index_of(const DeviceType& type) const;
  void sample(double now_s);
  void enter_state(std::size_t job, double now_s);

  std::vector<DeviceType> types_;
  std::vector<JobResult> jobs_;
  std::vector<Life> lives_;
  JobSpans spans_;
  std::vector<Sample> samples_;
  Sample now_;
  std::vector<double> held_device_s_, computing_device_s_;
  struct Integral {
    std::uint32_t devices = 0;  // now
    double device_s = 0;
  };
  Integral many_nodes_, many_racks_;
  double job_s_ = 0;  // integral of the number of jobs
  std::uint32_t present_ = 0;
};

}  // namespace es::actors::simulator
