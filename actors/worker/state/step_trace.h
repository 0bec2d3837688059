#pragma once
// Runs one global step in this process with one engine, and computes a digest of every result: the
// outputs of every operator, the gradients of every EST, their sum and the update. Two traces of
// the same step under two kernel classes show the first result that differs.
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
  std::string what;  // for example "EST 0: output of conv1 (conv2d) [32,28,28,8]"
  bool operator==(const TraceLine&) const = default;
};

struct StepTrace {
  Digest before;                 // the parameters when the step begins
  std::vector<TraceLine> lines;  // in the order of computation, one EST after the other
};

// One line of text for each digest: "DIGEST WHAT".
std::string encode(const StepTrace& trace);
// Error (failure): the text was not written by encode.
Result<StepTrace> decode_trace(std::string_view text);

struct TraceRequest {
  JobSpec spec;  // `steps` must be resolved
  DeviceType device{device_type(CpuClass::kScalar)};
  Version step = 0;
  // initial state, of a version <= step; an empty path means the seed
  std::filesystem::path checkpoint;
};

// Runs the steps before `step` too, with all ESTs one after the other. At level D0 the gradients
// are summed in the order of a single device. Errors: those of the data, the checkpoint and the
// engine.
Result<StepTrace> trace_step(const TraceRequest& request);

}  // namespace es::actors::worker
