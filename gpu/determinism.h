#pragma once
// What level D2 costs for a job on a device: measured, for `esctl inspect` and for level "auto".
#include <functional>
#include <string>
#include <vector>

#include "gpu/batch.h"
#include "gpu/engine.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::gpu {

struct D2Verdict {
  // Operators for which D1 uses a kernel whose bits depend on the hardware, in order of execution:
  // "layer1.0.conv1 (conv2d weight gradient): brgconv_bwd_w:avx512_core". Empty: D1 = D2.
  std::vector<std::string> vendor_ops;
  // What the library refused, as StepRunner::vendor_refusals(): D1 runs canonical kernels there.
  std::vector<std::string> vendor_refusals;
  // One local step, medians. Equal when there is no such operator (nothing is measured then).
  double d1_seconds = 0.0;
  double d2_seconds = 0.0;

  // 0.04 = a step takes 4 % longer at D2 than at D1.
  double cost() const { return d1_seconds == 0.0 ? 0.0 : d2_seconds / d1_seconds - 1.0; }
};

// Runs local steps at D1, then at D2: `rounds` of each after one to warm up, on one mini-batch.
// `seconds` is a monotonic clock (the engine reads none itself). Takes the memory of one engine at
// a time. Error: as Engine::create and Engine::local_step.
Result<D2Verdict> measure_d2(const JobSpec& spec, const SampleLayout& layout,
                             const EngineOptions& options, const Batch& batch,
                             const std::function<double()>& seconds, int rounds = 3);

// Level "auto": D2 when it costs at most spec.auto_cost, else D1. Other levels stay as they are.
DeterminismLevel resolve_level(const JobSpec& spec, const D2Verdict& verdict);

}  // namespace es::gpu
