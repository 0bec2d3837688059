#pragma once
// The learning rate as a function of the global step.
#include <cstdint>

#include "proto/base/job_spec.h"

namespace es::gpu {

// Returns cos(pi * x) for x in [0, 1]. It is computed in fp64 with +, - and * only, so it has the
// same bits on every machine, which the cosine of libm does not promise. The absolute error is
// below 3e-16.
double cos_pi(double x);

// Returns base^exponent by repeated squaring, which is a fixed order of multiplications.
double power(double base, std::uint64_t exponent);

// Returns the learning rate of global step `step` (0-based): the formula of ScheduleSpec in fp64,
// rounded once to fp32. The cosine and linear schedules use total_steps; from that step on they
// stay at their floor. REQUIRES: total_steps > 0 for "cosine" and "linear", step_size > 0 for
// "step", what value_at() requires for "points". `reductions`: how often evaluations have lowered
// the rate before this step (kind "plateau").
float learning_rate(const ScheduleSpec& schedule, double base_rate, std::uint64_t step,
                    std::uint64_t total_steps, std::uint32_t reductions = 0);

}  // namespace es::gpu
