#pragma once
// One global step, run in this process by one engine, with a digest of everything that it computes:
// the outputs of every operator, the gradients of every EST, their sum, the update. Two traces of
// the same step under two kernel classes tell where the first bit parts.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/digest.h"
#include "proto/base/ids.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::actors::worker {

struct TraceLine {
  Digest digest;
  std::string what;  // "EST 0: output of conv1 (conv2d) [32,28,28,8]"
  bool operator==(const TraceLine&) const = default;
};

struct StepTrace {
  Digest before;                 // parameters when the step begins
  std::vector<TraceLine> lines;  // in the order of computation, EST by EST
};

// One line of text each: "DIGEST WHAT".
std::string encode(const StepTrace& trace);
// Error (failure): not what encode writes.
Result<StepTrace> decode_trace(std::string_view text);

struct TraceRequest {
  JobSpec spec;  // steps resolved
  DeviceType device{device_type(CpuClass::kScalar)};
  Version step = 0;
  std::filesystem::path checkpoint;  // to begin from, of a version <= step; empty: the seed
};

// Runs the steps before `step` too, all ESTs one after the other. At level D0 the order of the sum
// is that of a single device. Errors: of the data, the checkpoint, the engine.
Result<StepTrace> trace_step(const TraceRequest& request);

}  // namespace es::actors::worker
