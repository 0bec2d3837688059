#include "scheduler/policy/common/speed.h"

#include <algorithm>
#include <cstddef>

#include "scheduler/model/model.h"

namespace es::scheduler {
namespace {

std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) {
  return (a + b - 1) / b;
}

std::uint64_t places_within(double f, std::span<const std::uint32_t> counts,
                            std::span<const double> capabilities) {
  std::uint64_t places = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0 && capabilities[i] > 0)
      places += std::uint64_t{counts[i]} * ests_within(f, capabilities[i]);
  return places;
}

// The smallest A / C_i above f: the next duration at which some device runs one more EST.
double next_f(double f, std::span<const std::uint32_t> counts,
              std::span<const double> capabilities) {
  double next = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0 || capabilities[i] <= 0) continue;
    const double candidate = (ests_within(f, capabilities[i]) + 1) / capabilities[i];
    if (next == 0 || candidate < next) next = candidate;
  }
  return next;
}

}  // namespace

double one_type_speed(std::uint32_t max_p, std::uint32_t n, double c) {
  // max_p / f with f = A / c, in this order of operations, so that the result equals that of
  // mixed_speed() for one type.
  return max_p / (ceil_div(max_p, n) / c);
}

std::uint32_t useful_devices(std::uint32_t max_p, std::uint32_t n) {
  return ceil_div(max_p, ceil_div(max_p, n));
}

double mixed_speed(std::uint32_t max_p, std::span<const std::uint32_t> counts,
                   std::span<const double> capabilities) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) sum += counts[i] * capabilities[i];
  if (sum <= 0) return 0;
  // No f below max_p / sum is possible, and every iteration adds at least one place.
  double f = max_p / sum * (1 - 1e-9);
  while (places_within(f, counts, capabilities) < max_p) f = next_f(f, counts, capabilities);
  return max_p / f;
}

void trim_to_speed(std::uint32_t max_p, double speed, std::span<std::uint32_t> counts,
                   std::span<const double> capabilities) {
  const double f = max_p / speed;
  std::uint32_t need = max_p;
  for (double below = -1;;) {  // types by descending capability
    double fastest = 0;
    for (const double c : capabilities)
      if (c > fastest && (below < 0 || c < below)) fastest = c;
    if (fastest == 0) break;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (capabilities[i] != fastest) continue;
      // f was computed from the speed and may be rounded down, below the exact quotient A / C.
      // Without the factor a device could lose one EST.
      const std::uint32_t ests = ests_within(f * (1 + 1e-12), fastest);
      counts[i] = ests == 0 ? 0 : std::min(counts[i], ceil_div(need, ests));
      need -= std::min(need, counts[i] * ests);
    }
    below = fastest;
  }
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (capabilities[i] <= 0) counts[i] = 0;
}

}  // namespace es::scheduler
