#include "scheduler/grants/grant_trial.h"

#include "scheduler/model/capability_watch.h"
#include "scheduler/model/device_sets.h"

namespace es::scheduler {
namespace {

// More devices of some types and fewer of none. A job that held nothing has no pace to compare
// with.
bool is_more(const DeviceSet& devices, const DeviceSet& than) {
  return !than.empty() && devices != than && devices.contains(than);
}

}  // namespace

void GrantTrial::placed(const DeviceSet& devices, const Capabilities& capabilities, bool chosen) {
  // A grant on top of an unjudged one extends its trial. Any other change ends the trial without a
  // verdict.
  if (trial_ && !(chosen && is_more(devices, trial_->held))) trial_.reset();
  // Read before restart(), which forgets it. If the pace is not known yet, the grant cannot be
  // judged, and no trial begins.
  const std::optional<double> before = pace_.seconds();
  if (!trial_ && chosen && before && is_more(devices, devices_))
    trial_ = Trial{devices_, *before, capabilities};
  // All paces belong to the old devices.
  devices_ = devices;
  pace_.restart();
}

void GrantTrial::step(Seconds now, std::uint64_t steps) {
  pace_.step(now, steps);
  // The new pace is known and is not slower, so the grant is accepted.
  if (trial_ && pace_.seconds() && !verdict()) trial_.reset();
}

std::optional<FallBack> GrantTrial::verdict() const {
  const std::optional<double> now = pace_.seconds();
  if (!trial_ || !now || *now <= (1 + kSlowerMin) * trial_->seconds) return std::nullopt;
  return FallBack{beyond(devices_, trial_->held), trial_->seconds, *now};
}

void GrantTrial::fall_back() {
  Refusal refusal{trial_->held, {}, std::move(trial_->capabilities)};
  for (const DeviceCount& added : beyond(devices_, refusal.held).counts)
    refusal.types.push_back(added.type);
  // The types ascend, as those of a DeviceSet do. refusal_of() searches them by bisection.
  refusals_.push_back(std::move(refusal));
  trial_.reset();
}

bool GrantTrial::capability_changed(const DeviceType& type, double steps_per_second) {
  const std::size_t ended = std::erase_if(refusals_, [&](const Refusal& refusal) {
    const auto known = refusal.capabilities.find(type);
    // Only a speed that was measured on the devices of the refusal itself counts. On more devices
    // it can be lower because devices slow each other down.
    return refusal.held == devices_ && refusal.held.count_of(type) > 0 &&
           known != refusal.capabilities.end() &&
           capability_differs(known->second, steps_per_second);
  });
  return ended > 0;
}

}  // namespace es::scheduler
