#include "scheduler/policy/common/speed.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

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

// The speed without communication.
double plain_speed(std::uint32_t max_p, std::span<const std::uint32_t> counts,
                   std::span<const double> capabilities) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) sum += counts[i] * capabilities[i];
  if (sum <= 0) return 0;
  // No f below max_p / sum is possible, and every iteration adds at least one place.
  double f = max_p / sum * (1 - 1e-9);
  while (places_within(f, counts, capabilities) < max_p) f = next_f(f, counts, capabilities);
  return max_p / f;
}

// Lowers the counts to a cover with the same speed without communication.
void trim_plain(std::uint32_t max_p, double speed, std::span<std::uint32_t> counts,
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

// Gives up one device of the slowest type that is used.
void drop_slowest(std::span<std::uint32_t> counts, std::span<const double> capabilities) {
  std::size_t slowest = counts.size();
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0 && (slowest == counts.size() || capabilities[i] < capabilities[slowest]))
      slowest = i;
  if (slowest < counts.size()) --counts[slowest];
}

struct MixedBest {
  double speed = 0;
  std::vector<std::uint32_t> counts;
};

// At every f the fastest devices have the most places. So the best plan with at most m devices uses
// only the m fastest ones, and m goes down from all devices.
MixedBest best_mixed(std::uint32_t max_p, std::span<const std::uint32_t> counts,
                     std::span<const double> capabilities, const SyncCurve& sync) {
  MixedBest best;
  std::vector<std::uint32_t> fastest(counts.begin(), counts.end());
  for (;;) {
    const double plain = plain_speed(max_p, fastest, capabilities);
    // Without communication it would be no faster, so fewer devices are not either.
    if (plain <= best.speed) return best;
    trim_plain(max_p, plain, fastest, capabilities);
    const auto used = std::accumulate(fastest.begin(), fastest.end(), std::uint32_t{0});
    const double speed = max_p / (max_p / plain + sync.seconds(used));
    if (speed >= best.speed) best = {speed, fastest};
    drop_slowest(fastest, capabilities);
  }
}

}  // namespace

double one_type_speed(std::uint32_t max_p, std::uint32_t n, double c, const SyncCurve& sync) {
  // max_p / f with f = A / c, in this order of operations, so that the result equals that of
  // mixed_speed() for one type.
  if (sync.empty()) return max_p / (ceil_div(max_p, n) / c);
  const std::uint32_t k = useful_devices(max_p, n, c, sync);
  return max_p / (ceil_div(max_p, k) / c + sync.seconds(k));
}

std::uint32_t useful_devices(std::uint32_t max_p, std::uint32_t n) {
  return ceil_div(max_p, ceil_div(max_p, n));
}

std::uint32_t useful_devices(std::uint32_t max_p, std::uint32_t n, double c,
                             const SyncCurve& sync) {
  std::uint32_t best = useful_devices(max_p, n);
  if (sync.empty()) return best;
  double least = ceil_div(max_p, best) / c + sync.seconds(best);
  for (std::uint32_t k = best; k > 1;) {
    k = useful_devices(max_p, k - 1);
    const double compute = ceil_div(max_p, k) / c;
    // Even fewer devices compute for longer.
    if (compute > least) break;
    const double seconds = compute + sync.seconds(k);
    if (seconds <= least) best = k, least = seconds;
  }
  return best;
}

double mixed_speed(std::uint32_t max_p, std::span<const std::uint32_t> counts,
                   std::span<const double> capabilities, const SyncCurve& sync) {
  if (sync.empty()) return plain_speed(max_p, counts, capabilities);
  return best_mixed(max_p, counts, capabilities, sync).speed;
}

void trim_to_speed(std::uint32_t max_p, double speed, std::span<std::uint32_t> counts,
                   std::span<const double> capabilities, const SyncCurve& sync) {
  if (sync.empty()) return trim_plain(max_p, speed, counts, capabilities);
  const MixedBest best = best_mixed(max_p, counts, capabilities, sync);
  std::copy(best.counts.begin(), best.counts.end(), counts.begin());
}

void keep_fastest(std::uint32_t most, std::span<std::uint32_t> counts,
                  std::span<const double> capabilities) {
  std::vector<std::size_t> types(counts.size());
  std::iota(types.begin(), types.end(), std::size_t{0});
  std::ranges::stable_sort(types, std::greater<>(), [&](std::size_t t) { return capabilities[t]; });
  for (const std::size_t t : types) {
    counts[t] = std::min(counts[t], most);
    most -= counts[t];
  }
}

}  // namespace es::scheduler
