#include "scheduler/model/model.h"

#include <algorithm>
#include <cmath>

#include "proto/base/check.h"

namespace es::scheduler {

DeviceSet Plan::devices() const {
  DeviceSet set;
  for (const PlanPart& part : parts) set.add(part.type, part.devices);
  return set;
}

Estimate estimate(const Plan& plan, const Capabilities& capabilities, std::uint32_t max_p,
                  const SyncCurve& sync) {
  ES_CHECK(max_p > 0);
  Estimate result;
  for (const PlanPart& part : plan.parts) {
    const double capability = capabilities.at(part.type);
    result.nest += part.devices * part.ests_per_device;
    result.f_seconds_per_step =
        std::max(result.f_seconds_per_step, part.ests_per_device / capability);
  }
  ES_CHECK_MSG(result.nest >= max_p, "the plan has no place for each EST");
  result.f_seconds_per_step += sync.seconds(plan.devices().total());

  const double f = result.f_seconds_per_step;
  for (const PlanPart& part : plan.parts)
    result.waste += part.devices * (capabilities.at(part.type) - part.ests_per_device / f);
  // Places without an EST. nest >= max_p was checked, so the unsigned difference cannot wrap
  // around.
  result.waste += (result.nest - max_p) / f;
  // The short form of the identity orders plans exactly as f does, without the rounding errors of
  // sums.
  result.throughput = max_p / f;
  return result;
}

std::uint32_t ests_within(double seconds, double capability) {
  const double product = seconds * capability;
  ES_CHECK(seconds >= 0 && capability > 0 && product < 0x1p31);
  auto count = static_cast<std::uint32_t>(product);
  // Rounding may move the product across an integer. The quotient is the contract, so it decides.
  while ((count + 1) / capability <= seconds) ++count;
  while (count > 0 && count / capability > seconds) --count;
  return count;
}

}  // namespace es::scheduler
