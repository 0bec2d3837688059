#include "scheduler/policy/greedy/missing_devices.h"

#include <algorithm>
#include <limits>

#include "scheduler/model/device_sets.h"
#include "scheduler/policy/greedy/greedy_index.h"

namespace es::scheduler {
namespace {

// The types that the job can still add; those whose proposals gain most come first.
std::vector<DeviceType> preferred_types(const JobView& job, bool mix_types) {
  const auto best_gain = [&](const DeviceType& type) {
    double best = -std::numeric_limits<double>::infinity();
    for (const Proposal& p : job.proposals)
      if (p.type == type) best = std::max(best, gain_per_device(p));
    return best;
  };
  // A type without a proposal has the gain minus infinity and so comes last. The sort is stable, so
  // equal gains keep the order of names.
  std::vector<DeviceType> types = addable_types(job, mix_types);
  std::stable_sort(types.begin(), types.end(), [&](const DeviceType& a, const DeviceType& b) {
    return best_gain(a) > best_gain(b);
  });
  return types;
}

std::optional<DeviceSet> of_one_type(const JobView& job, std::uint32_t missing,
                                     const DeviceSet& supply) {
  for (const DeviceType& type : preferred_types(job, false)) {
    if (supply.count_of(type) < missing) continue;
    DeviceSet chosen;
    chosen.add(type, missing);
    return chosen;
  }
  return std::nullopt;
}

std::optional<DeviceSet> of_any_type(const JobView& job, std::uint32_t missing,
                                     const DeviceSet& free, const DeviceSet& rest) {
  DeviceSet chosen;
  const std::vector<DeviceType> types = preferred_types(job, true);
  // Free devices of any type are taken before devices that other jobs would have to give back.
  for (const DeviceSet* supply : {&free, &rest}) {
    for (const DeviceType& type : types) {
      const std::uint32_t count = std::min(missing, supply->count_of(type));
      chosen.add(type, count);
      missing -= count;
    }
  }
  if (missing > 0) return std::nullopt;
  return chosen;
}

}  // namespace

std::optional<DeviceSet> missing_devices(const JobView& job, bool mix_types, const DeviceSet& free,
                                         const DeviceSet& rest) {
  const DeviceSet supply = sum(free, rest);
  if (job.pinned) {
    DeviceSet missing = beyond(*job.pinned, job.held);
    if (!supply.contains(missing)) return std::nullopt;
    return missing;
  }
  const std::uint32_t missing = job.min_devices - job.held.total();
  return mix_types ? of_any_type(job, missing, free, rest) : of_one_type(job, missing, supply);
}

}  // namespace es::scheduler
