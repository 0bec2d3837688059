#include "actors/head/intra_job/core/device_demand.h"

#include <algorithm>
#include <map>
#include <utility>

namespace es::actors::intra_job {

void DeviceDemand::enter_stage_of(Version version) {
  if (context_.staged()) stage_ = context_.schedule.stage_at(version);
}

Wanted DeviceDemand::at(Version version) const {
  const StageSchedule& schedule = context_.schedule;
  if (context_.staged()) return schedule.devices(schedule.stage_at(version));
  return context_.record.pinned;
}

Wanted DeviceDemand::needed_at(Version version) const {
  const StageSchedule& schedule = context_.schedule;
  if (context_.staged()) return schedule.demand(schedule.stage_at(version));
  return context_.record.pinned;
}

Wanted DeviceDemand::staff() const {
  // An empty set, unlike nullopt, ends all processes and gives all devices back.
  if (context_.is_ending() || context_.is_paused() || restart_.is_missing()) return DeviceSet();
  if (context_.staged()) return context_.schedule.demand(stage_);
  return context_.record.pinned;
}

void DeviceDemand::update() {
  const Wanted wanted = staff();
  const bool again = again_at_ && context_.now >= *again_at_;
  // A job that wants any devices sends nothing here at first: its planner makes the demands.
  if (wanted == sent_ && !again) return;
  again_at_.reset();
  sent_ = wanted;
  if (wanted) {
    context_.emit(Demand{*wanted});
  } else {
    context_.emit(DemandLifted{});
  }
}

Status DeviceDemand::check(const ScaleCommand& command) const {
  if (context_.is_ending()) return refused("the job has ended");
  if (context_.staged()) return refused("the job goes through fixed stages; it cannot be scaled");
  const std::uint32_t max_p = context_.config.spec.max_p;
  if (command.devices && (command.devices->empty() || command.devices->total() > max_p))
    return refused("devices = " + command.devices->text() +
                   ": allowed are 1 to max_p = " + std::to_string(max_p) + " devices");
  return check_types(command.devices);
}

// Error (refused): the bits of the job depend on the device type, and it cannot have these devices.
Status DeviceDemand::check_types(const Wanted& wanted) const {
  const DeterminismLevel level = context_.config.spec.level;
  if (level == DeterminismLevel::kD2 || !wanted) return {};
  const std::string why = "devices = " + wanted->text() + ": at level " + level_name(level) +
                          " the kernels of a device type decide the bits; allowed are devices of ";
  if (wanted->counts.size() > 1) return refused(why + "one type");
  const std::optional<DeviceType>& bound = context_.record.bound_type;
  if (!bound || wanted->counts.front().type == *bound) return {};
  return refused(why + bound->name + ", on which the job began");
}

void DeviceDemand::scale(const ScaleCommand& command) {
  if (const Status allowed = check(command); !allowed.ok())
    return context_.answer(command.request, allowed.error());
  if (scale_request_) {
    answer_scale(refused("a later scale request has replaced this one"));
  } else {
    // After a refusal the job goes back to what was in force before the first of several open
    // requests. The ones in between were never granted.
    pinned_before_scale_ = context_.record.pinned;
  }
  context_.record.pinned = command.devices;
  context_.save();
  scale_request_ = command.request;
  // A paused job gets its devices when it is resumed. There is nothing to wait for.
  const bool granted = !command.devices || context_.is_paused() ||
                       context_.fleet.allocated_set().contains(*command.devices);
  if (granted) answer_scale({});
}

void DeviceDemand::answer_scale(Status status) {
  context_.answer(*scale_request_, std::move(status));
  scale_request_.reset();
}

void DeviceDemand::met() {
  was_met_ = true;
  // An open request always names devices, because one that lifts the pin is answered at once.
  if (scale_request_ && context_.fleet.allocated_set().contains(*context_.record.pinned))
    answer_scale({});
}

std::string DeviceDemand::refused_because(const std::string& reason) {
  if (scale_request_) {
    was_met_ = true;  // the earlier demand, which is restored here, was met
    context_.record.pinned = pinned_before_scale_;
    context_.save();
    answer_scale(refused(reason));
    return {};
  }
  const std::string text = "the devices that the job needs are not available: " + reason;
  if (!was_met_) return text;
  // The devices existed before: a node is away, or has not found a restarted head yet.
  if (!again_at_) context_.warn(text + "; the job waits for them");
  again_at_ = context_.now + kDemandAgainAfter;
  return {};
}

// Below D2 a job without a type may hold devices of several types: those of a change that its head
// could not finish. It takes the type of most of them.
std::set<Incarnation> DeviceDemand::of_one_type(const std::set<Incarnation>& workers) const {
  if (context_.config.spec.level == DeterminismLevel::kD2 || context_.staged()) return workers;
  const JobRecord& record = context_.record;
  std::map<DeviceType, std::set<Incarnation>> by_type;
  for (const Incarnation w : workers) by_type[context_.fleet.find(w)->device.type].insert(w);
  if (by_type.size() < 2 || record.bound_type || record.pinned) return workers;
  return std::ranges::max_element(by_type, {},
                                  [](const auto& entry) { return entry.second.size(); })
      ->second;
}

bool DeviceDemand::bind_to_type(const std::set<Incarnation>& workers) {
  const DeterminismLevel level = context_.config.spec.level;
  if (level == DeterminismLevel::kD2 || context_.staged()) return true;
  const auto type_of = [this](Incarnation worker) {
    return context_.fleet.find(worker)->device.type;
  };
  JobRecord& record = context_.record;
  std::optional<DeviceType> type = record.bound_type;
  if (!type && record.pinned) type = record.pinned->counts.front().type;
  if (!type) type = type_of(*workers.begin());
  if (!std::ranges::all_of(workers, [&](Incarnation w) { return type_of(w) == *type; }))
    return false;
  if (record.bound_type) return true;
  record.bound_type = type;
  context_.save();
  context_.log("at level " + std::string(level_name(level)) +
               " the kernels of a device type decide the bits: from now on the job uses " +
               type->name + " only");
  context_.emit(BoundToType{*type});
  return true;
}

void DeviceDemand::give_up_other_types(const Allocation& allocation) {
  const std::optional<DeviceType>& bound = context_.record.bound_type;
  if (!bound) return;
  for (const DeviceId& device : allocation.devices)
    if (device.type != *bound && context_.fleet.allocated(device)) context_.fleet.give_up(device);
}

}  // namespace es::actors::intra_job
