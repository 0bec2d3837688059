#include "actors/head/cluster_scheduler/core/call_back.h"

#include <algorithm>
#include <numeric>

#include "scheduler/model/device_sets.h"

namespace es::actors {
namespace {

enum Round { kExtras, kElastic, kPinned };

// What the holder gives in this round: `most` devices of the type, or everything.
DeviceSet given_by(const Holder& holder, Round round, const DeviceType& type, std::uint32_t most) {
  if (holder.pinned && round != kPinned) return {};
  if (!holder.suspendable && round != kExtras) return {};
  const std::uint32_t total = holder.held.total();
  most = std::min(most, holder.held.count_of(type));
  // In the first pass a job keeps its minimum. The inner minimum prevents a negative difference
  // for a job that already has fewer devices.
  if (round == kExtras) most = std::min(most, total - std::min(total, holder.min_devices));
  if (most == 0) return {};
  // A job with less than its minimum cannot run, so it gives everything back.
  if (!holder.pinned && total - most < holder.min_devices) return holder.held;
  DeviceSet devices;
  devices.add(type, most);
  return devices;
}

}  // namespace

std::vector<CalledBack> call_back(std::vector<Holder> holders, const DeviceType& type,
                                  std::uint32_t count) {
  // The order is stable, so among jobs of one priority the last submitted one stays first.
  std::vector<std::size_t> order(holders.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return holders[a].priority < holders[b].priority;
  });
  std::vector<CalledBack> called;
  for (const Round round : {kExtras, kElastic, kPinned}) {
    for (const std::size_t index : order) {
      Holder& holder = holders[index];
      const DeviceSet devices = given_by(holder, round, type, count);
      if (devices.empty()) continue;
      count -= std::min(count, devices.count_of(type));
      holder.held = scheduler::beyond(holder.held, devices);
      called.push_back({index, devices});
    }
  }
  return called;
}

}  // namespace es::actors
