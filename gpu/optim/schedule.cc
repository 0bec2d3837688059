#include "gpu/optim/schedule.h"

#include <algorithm>

#include "proto/base/check.h"

namespace es::gpu {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Taylor series on [0, pi/4]. The first omitted term is below 2e-17 of the result.
// Both polynomials begin with the highest power (Horner's rule). The leading term is added last and
// is not part of the coefficients, so the rounding errors of the rest are small against it.
double sin_small(double a) {
  constexpr double kCoefficients[] = {
      1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0,
      1.0 / 362880.0,          -1.0 / 5040.0,          1.0 / 120.0,        -1.0 / 6.0};
  const double square = a * a;
  double sum = 0.0;
  for (const double c : kCoefficients) sum = sum * square + c;
  return a + a * (sum * square);
}

double cos_small(double a) {
  constexpr double kCoefficients[] = {
      1.0 / 20922789888000.0, -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0,
      1.0 / 40320.0,          -1.0 / 720.0,         1.0 / 24.0,        -1.0 / 2.0};
  const double square = a * a;
  double sum = 0.0;
  for (const double c : kCoefficients) sum = sum * square + c;
  return 1.0 + sum * square;
}

// Returns 0 up to the end of the warm-up, and then rises linearly to 1 at the end of the job.
double linear_progress(std::uint64_t warmup_steps, std::uint64_t step, std::uint64_t total_steps) {
  if (step >= total_steps) return 1.0;
  if (step <= warmup_steps) return 0.0;
  return static_cast<double>(step - warmup_steps) / static_cast<double>(total_steps - warmup_steps);
}

// Moves a rate that falls from base_rate to 0 so that it ends at the floor. A floor of 0 keeps
// every bit of the rate.
double above_floor(const ScheduleSpec& schedule, double rate, double base_rate) {
  return schedule.floor * base_rate + (1.0 - schedule.floor) * rate;
}

// One product after the other, as torch lowers the rate of a group, and not a power of gamma.
double lowered(const ScheduleSpec& schedule, double rate, std::uint32_t reductions) {
  for (; reductions > 0; --reductions) {
    const double lower = std::max(rate * schedule.gamma, schedule.min_rate);
    if (!(rate - lower > schedule.epsilon)) return rate;
    rate = lower;
  }
  return rate;
}

}  // namespace

double power(double base, std::uint64_t exponent) {
  double result = 1.0;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = result * base;
    base = base * base;
  }
  return result;
}

double cos_pi(double x) {
  ES_CHECK(x >= 0.0 && x <= 1.0);
  // The argument is reduced to at most pi/4, where the Taylor series are accurate.
  if (x > 0.5) return -cos_pi(1.0 - x);
  if (x > 0.25) return sin_small(kPi * (0.5 - x));
  return cos_small(kPi * x);
}

float learning_rate(const ScheduleSpec& schedule, double base_rate, std::uint64_t step,
                    std::uint64_t total_steps, std::uint32_t reductions) {
  double rate = base_rate;
  if (schedule.kind == "step") {
    ES_CHECK(schedule.step_size > 0);
    rate = base_rate * power(schedule.gamma, step / schedule.step_size);
  } else if (schedule.kind == "cosine") {
    ES_CHECK(total_steps > 0);
    const double progress =
        static_cast<double>(std::min(step, total_steps)) / static_cast<double>(total_steps);
    rate = above_floor(schedule, base_rate * (1.0 + cos_pi(progress)) / 2.0, base_rate);
  } else if (schedule.kind == "linear") {
    const double left = 1.0 - linear_progress(schedule.warmup_steps, step, total_steps);
    rate = above_floor(schedule, base_rate * left, base_rate);
  } else if (schedule.kind == "points") {
    rate = base_rate * value_at(schedule.points, step);
  } else if (schedule.kind == "plateau") {
    rate = lowered(schedule, base_rate, reductions);
  }
  // The first step uses 1 / warmup_steps of the rate and not 0, because a step with the rate 0
  // would be lost. The product comes before the quotient; the other order could give other bits.
  if (step < schedule.warmup_steps)
    rate = rate * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  return static_cast<float>(rate);
}

}  // namespace es::gpu
