#pragma once
// Workload: the jobs of a trace, made ready for one cluster: how fast they are on its devices and
// how many global steps they have. Pure.
//
//   capability C_i   1 / (seconds of a local step) by model, device type and, where the step times
//                    say so, batch size of an EST; a job without a model does one local step per
//                    second on every type
//   global steps     local steps of the trace / max_p, at least 1, rounded up
//   device types     level D2 (mix_types): all that the model has a speed for, its own type first;
//                    else D1: its own type, or any one of them
#include <map>
#include <string>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "scheduler/model.h"
#include "store/traces/job_trace.h"

namespace es::actors::simulator {

struct WorkJob {
  std::string id;  // of the trace
  double submit_s = 0;
  JobSpec spec;           // name, max_p, steps, level, resources
  std::string model_key;  // jobs of one key are equally fast
  scheduler::Capabilities capabilities;
};

struct Workload {
  DeviceSet cluster;
  std::vector<WorkJob> jobs;  // by submit_s
};

struct WorkloadOptions {
  double jitter_s = 0;     // each submission is later by a random time below this
  std::uint64_t seed = 0;  // of the jitter
};

// Errors (usage): a job of which no device type of the cluster has a speed, or whose work is not
// known; named by its id.
Result<Workload> make_workload(const store::JobTrace& trace, const store::StepTimes& times,
                               const DeviceSet& cluster, const WorkloadOptions& options);

}  // namespace es::actors::simulator
