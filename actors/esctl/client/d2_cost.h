#pragma once
// Measures what level D2 costs a job on this machine, and resolves level "auto".
#include <string>

#include "actors/esctl/client/job_request.h"
#include "actors/views/console.h"
#include "gpu/engine/determinism.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

struct D2Cost {
  std::string device_type;  // the kernel class of the measurement: the widest one of this processor
  gpu::D2Verdict verdict;
};

// Trains a few local steps on the job's first samples at D1 and D2, and keeps nothing of them. It
// takes seconds for large models. A process can measure only once, since the vendor library serves
// one class. Errors: those of JobModel and gpu::measure_d2.
Result<D2Cost> measure_d2_cost(const JobSpec& spec);

// Replaces level auto by D1 or D2. If the job begins from a checkpoint, it gets the level of the
// checkpoint, because a new measurement could choose another level with other bits. A line on
// console.err names the level and the reason. Other levels stay as they are, and nothing is
// measured.
Status resolve_auto_level(JobSpec& spec, const StartPoint& start, Console& console);

}  // namespace es::actors::esctl
