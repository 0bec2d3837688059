#pragma once
// The output of `inspect` about a job or a model file. Pure functions.
#include <optional>
#include <string>
#include <vector>

#include "actors/esctl/client/d2_cost.h"
#include "gpu/cuda/cuda_inventory.h"
#include "gpu/engine/engine.h"
#include "proto/base/job_spec.h"
#include "proto/base/sample_layout.h"

namespace es::actors::esctl {

struct Inspection {
  JobSpec spec;
  SampleLayout layout;
  std::vector<SampleLayout> others;             // of the further programs of the model
  std::vector<gpu::EngineDescription> engines;  // one for each kernel class, the slowest first
  gpu::CudaInventory cuda;                      // of this machine
  bool of_job = false;                          // otherwise of a model file without a job
  std::optional<D2Cost> d2;                     // of a job, if it was measured
};

// The operators, printed once for all classes with the same ones, the memory of each class, and the
// cost of D2. Of a model file, nothing is said that only a job decides.
std::string inspection_text(const Inspection& inspection);
std::string inspection_json(const Inspection& inspection);

}  // namespace es::actors::esctl
