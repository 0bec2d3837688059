#pragma once
// What level D2 costs a job, measured on this machine; what level "auto" becomes.
#include <string>

#include "actors/esctl/console.h"
#include "actors/esctl/job_request.h"
#include "gpu/determinism.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

struct D2Cost {
  std::string device_type;  // the widest kernel class of this processor, where it was measured
  gpu::D2Verdict verdict;
};

// Trains a few local steps on the job's first samples at D1 and D2, and keeps nothing of them.
// Takes seconds for large models. A process can measure once: the vendor library serves one class.
// Error: as store::open_samples, gpu::measure_d2.
Result<D2Cost> measure_d2_cost(const JobSpec& spec);

// Level auto becomes D1 or D2, or the level of the checkpoint where the job begins: measured anew,
// it could become another one with other bits. A line to console.err says which, and why. Other
// levels stay, nothing is measured then.
Status resolve_auto_level(JobSpec& spec, const StartPoint& start, Console& console);

}  // namespace es::actors::esctl
