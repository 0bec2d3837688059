#pragma once
// What `inspect` prints about a job. Pure functions.
#include <string>
#include <vector>

#include "gpu/cuda_inventory.h"
#include "gpu/engine.h"
#include "proto/base/job_spec.h"

namespace es::actors::esctl {

struct Inspection {
  JobSpec spec;
  gpu::DataShape shape;                         // of one sample
  std::vector<gpu::EngineDescription> engines;  // one for each kernel class, slowest first
  gpu::CudaInventory cuda;                      // of this machine; no job uses them yet
};

// The operators, once for all classes that execute the same, then the memory of each class.
std::string inspection_text(const Inspection& inspection);
std::string inspection_json(const Inspection& inspection);

}  // namespace es::actors::esctl
