#include "scheduler/grant_trial.h"

#include <algorithm>

#include "scheduler/capability_watch.h"
#include "scheduler/device_sets.h"

namespace es::scheduler {
namespace {

bool is_more(const DeviceSet& devices, const DeviceSet& than) {
  return !than.empty() && devices != than && devices.contains(than);
}

}  // namespace

void GrantTrial::placed(const DeviceSet& devices, const Capabilities& capabilities, bool chosen) {
  if (trial_ && !(chosen && is_more(devices, trial_->held))) trial_.reset();
  const std::optional<double> before = pace_.seconds();
  if (!trial_ && chosen && before && is_more(devices, devices_))
    trial_ = Trial{devices_, *before, capabilities};
  devices_ = devices;
  pace_.restart();
}

void GrantTrial::step(double now_seconds, std::uint64_t steps) {
  pace_.step(now_seconds, steps);
  if (trial_ && pace_.seconds() && !verdict()) trial_.reset();
}

std::optional<FallBack> GrantTrial::verdict() const {
  const std::optional<double> now = pace_.seconds();
  if (!trial_ || !now || *now <= (1 + kSlowerMin) * trial_->seconds) return std::nullopt;
  return FallBack{beyond(devices_, trial_->held), trial_->seconds, *now};
}

void GrantTrial::fall_back() {
  Refused refused{trial_->held, {}, std::move(trial_->capabilities)};
  for (const DeviceCount& added : beyond(devices_, refused.held).counts)
    refused.types.push_back(added.type);
  refused_.push_back(std::move(refused));
  trial_.reset();
}

void GrantTrial::capability_changed(const DeviceType& type, double steps_per_second) {
  std::erase_if(refused_, [&](const Refused& r) {
    const auto known = r.capabilities.find(type);
    return r.held == devices_ && r.held.count_of(type) > 0 && known != r.capabilities.end() &&
           capability_differs(known->second, steps_per_second);
  });
}

bool GrantTrial::refuses(const DeviceSet& held, const DeviceType& type) const {
  return std::any_of(refused_.begin(), refused_.end(), [&](const Refused& r) {
    return r.held == held && std::find(r.types.begin(), r.types.end(), type) != r.types.end();
  });
}

}  // namespace es::scheduler
