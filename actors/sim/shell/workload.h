#pragma once
// Workload: the jobs of a trace, prepared for one cluster: their speeds on its devices and their
// numbers of global steps. Pure.
//
//   capability C_i   1 / (seconds of a local step) by model, device type and, if the step times
//                    contain it, batch size of an EST; a job without a model makes one local step
//                    per second on every type
//   global steps     local steps of the trace / max_p, rounded up, at least 1
//   device types     level D2 (mix_types): all types for which the model has a speed, its own type
//                    first; otherwise D1: its own type, or any one of them
#include <map>
#include <string>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "scheduler/model/model.h"
#include "store/traces/job_trace.h"

namespace es::actors::simulator {

struct WorkJob {
  std::string id;  // as in the trace
  double submit_s = 0;
  std::string model;      // as in the trace
  JobSpec spec;           // name, max_p, steps, level, resources
  std::string model_key;  // jobs with equal keys are equally fast
  scheduler::Capabilities capabilities;
};

struct Workload {
  DeviceSet cluster;
  std::vector<WorkJob> jobs;  // by submit_s
};

struct WorkloadOptions {
  double jitter_s = 0;     // each submission is delayed by a random time below this
  std::uint64_t seed = 0;  // of the delays and of the draw
  // Draws the jobs anew: as many, with replacement, at the submission times of the trace. So the
  // load has the same course, and what arrives when is another sample of the same jobs.
  bool resample = false;
};

// Errors (usage), which name the job by its id: no device type of the cluster has a speed for it,
// the cluster has fewer devices for it than its minimum, or its work is not known.
Result<Workload> make_workload(const store::JobTrace& trace, const store::StepTimes& times,
                               const DeviceSet& cluster, const WorkloadOptions& options);

}  // namespace es::actors::simulator
