#pragma once
// Measures what level D2 costs for a job on a device. `esctl inspect` and level "auto" use it.
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "gpu/base/batch.h"
#include "gpu/engine/engine.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::gpu {

using StepTime = std::chrono::duration<double>;

struct D2Verdict {
  // The operators for which D1 uses a kernel whose bits depend on the hardware, in order of
  // execution, for example "layer1.0.conv1 (conv2d weight gradient): brgconv_bwd_w:avx512_core". If
  // the list is empty, D1 and D2 have the same bits.
  std::vector<std::string> vendor_ops;
  // What the vendor library refused, as StepRunner::vendor_refusals() returns it. D1 runs canonical
  // kernels there.
  std::vector<std::string> vendor_refusals;
  // Median durations of one local step. They are equal, and nothing is measured, if vendor_ops is
  // empty.
  StepTime d1_time{0.0}, d2_time{0.0};

  // Returns the relative cost of D2; 0.04 means that a step takes 4 % longer at D2 than at D1.
  double cost() const { return d1_time.count() == 0.0 ? 0.0 : d2_time / d1_time - 1.0; }
};

// Runs local steps at D1 and then at D2 on one mini-batch: one step to warm up and `rounds`
// measured steps for each level. `now` is a monotonic clock, because the engine itself reads none.
// Only one engine exists at a time, so the memory of one engine is enough. Errors: those of
// Engine::create and Engine::local_step. REQUIRES: rounds > 0.
Result<D2Verdict> measure_d2(const JobSpec& spec, const Graph& model, const EngineOptions& options,
                             const Batch& batch, const std::function<StepTime()>& now,
                             int rounds = 3);

// Returns the level that the job runs at. "auto" becomes D2 if D2 costs at most spec.auto_cost, and
// D1 otherwise. Every other level is returned unchanged.
DeterminismLevel resolve_level(const JobSpec& spec, const D2Verdict& verdict);

}  // namespace es::gpu
