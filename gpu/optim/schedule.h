#pragma once
// The learning rate as a function of the global step.
#include <cstdint>

#include "proto/base/job_spec.h"

namespace es::gpu {

// cos(pi * x) for x in [0, 1], in fp64 with + - * only: the same bits on every machine, which
// libm's cos does not promise. Absolute error below 3e-16 (against the exact value).
double cos_pi(double x);

// Learning rate of global step t (0-based): the formula of ScheduleSpec in fp64, rounded once to
// fp32. total_steps is used by the cosine and linear schedules; from total_steps on they stay at 0.
// REQUIRES: total_steps > 0 for "cosine" and "linear", step_size > 0 for "step".
float learning_rate(const ScheduleSpec& schedule, double base_rate, std::uint64_t step,
                    std::uint64_t total_steps);

}  // namespace es::gpu
