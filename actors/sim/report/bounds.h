#pragma once
// Bounds that no schedule of a workload can beat, whatever its policy. Pure.
//
// For a job j: d_j = local steps / its largest C_ij, the device-seconds that it needs at least.
//
//   alone      every job takes at least start + local steps / speed with its best devices
//   one queue  sum of JCTs >= that of one machine as fast as all N devices together, on which the
//              jobs take d_j / N and the job with the least left runs (SRPT, optimal there)
//   work       for every set T of types and time r, the jobs that are submitted from r on and can
//              use no types outside of T end at r + sum of d_j / devices of T or later
//
// The mean JCT is bounded by the larger one of the first two, the makespan by alone and work.
#include "actors/sim/shell/workload.h"

namespace es::actors::simulator {

struct Bounds {
  double avg_jct_s = 0;
  double makespan_s = 0;  // from the begin of the trace, like Report::makespan_s
};

// start_s: seconds of a job's first start.
Bounds bounds_of(const Workload& workload, double start_s);

}  // namespace es::actors::simulator
