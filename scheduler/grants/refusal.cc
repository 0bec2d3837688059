#include "scheduler/grants/refusal.h"

#include <algorithm>

#include "scheduler/model/device_sets.h"

namespace es::scheduler {
namespace {

bool covers(const Refusal& refusal, const DeviceSet& devices) {
  if (devices == refusal.held || !devices.contains(refusal.held)) return false;
  // The job was measured with these types added. A set with another type in addition was not, and
  // may be faster.
  return std::ranges::all_of(beyond(devices, refusal.held).counts, [&](const DeviceCount& added) {
    return std::ranges::binary_search(refusal.types, added.type);
  });
}

}  // namespace

const Refusal* refusal_of(const std::vector<Refusal>& refusals, const DeviceSet& devices) {
  const auto at = std::ranges::find_if(
      refusals, [&](const Refusal& refusal) { return covers(refusal, devices); });
  return at == refusals.end() ? nullptr : &*at;
}

}  // namespace es::scheduler
