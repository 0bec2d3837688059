// ClusterCore: what devices cost, and the devices that jobs with a deadline or a budget may have.
#include <algorithm>

#include "actors/head/cluster_scheduler/core/cluster_core.h"
#include "scheduler/policy/common/price_choice.h"

namespace es::actors {

using scheduler::JobView;
using scheduler::Seconds;

void ClusterCore::limit_by_price(const Job& job, JobView& view) {
  if (limits_.prices.empty()) return;
  const std::uint64_t number = submit_numbers_.at(job.admitted.job);
  const Seconds again_at =
      scheduler::limit_by_price(view, view_.total, limits_.prices, Seconds(now_s_));
  price_limits_s_.erase(number);
  if (again_at < scheduler::kNever) price_limits_s_[number] = again_at.count();
}

// A job whose choice has waited too long may need faster devices.
void ClusterCore::renew_price_limits() {
  for (const auto& [number, at_s] : price_limits_s_)
    if (at_s <= now_s_) touch(jobs_.at(number));
}

double ClusterCore::next_price_limit_s() const {
  double next_s = scheduler::kNever.count();
  for (const auto& [number, at_s] : price_limits_s_) next_s = std::min(next_s, at_s);
  return next_s;
}

// In their order; empty if nothing costs anything.
std::vector<double> ClusterCore::prices_of(const std::set<DeviceId>& devices) const {
  std::vector<double> prices;
  if (limits_.prices.empty()) return prices;
  for (const DeviceId& device : devices)
    prices.push_back(limits_.prices.of(device.type, pool_.is_spot(device.node)));
  return prices;
}

}  // namespace es::actors
