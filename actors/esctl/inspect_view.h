#pragma once
// What `inspect` prints about a job. Pure functions.
#include <string>
#include <vector>

#include "actors/esctl/d2_cost.h"
#include "gpu/cuda_inventory.h"
#include "gpu/engine.h"
#include "proto/base/job_spec.h"
#include "proto/base/sample_layout.h"

namespace es::actors::esctl {

struct Inspection {
  JobSpec spec;
  SampleLayout layout;
  std::vector<gpu::EngineDescription> engines;  // one for each kernel class, slowest first
  gpu::CudaInventory cuda;                      // of this machine
  D2Cost d2;
};

// The operators, once for all classes that execute the same, the memory of each class, and what D2
// costs.
std::string inspection_text(const Inspection& inspection);
std::string inspection_json(const Inspection& inspection);

}  // namespace es::actors::esctl
