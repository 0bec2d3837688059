#pragma once
// Role 3 of docs/SCHEDULING.md: a grant is applied and measured, and is given back if the job
// became slower. Pure: times are arguments, from any origin; not thread-safe.
//
// * A trial begins when the job steps on more devices than before, if its pace on the devices
//   before is known (step_pace.h). It ends with the first pace on the new devices.
// * The job has become slower if pace now > (1 + kSlowerMin) * pace before. All added devices are
//   then given back. Grants that arrive before the first one is measured are judged together with
//   it.
// * After that the job refuses the devices to which it fell back together with more devices of the
//   added types: it neither asks for them nor is it given them (refusal.h, policy/policy.h). The
//   refusal ends when a C_i that is measured on the devices to which it fell back differs by more
//   than kCapabilityChangeMin from its value before the grant. Values of C_i on more devices do not
//   count, because devices can slow each other down, and the job would move back and forth.
//
// So once both paces are measured, a job is never left slower after a grant, and it tries the same
// grant again only when its devices have changed. Devices that a user has pinned are not judged.
#include <optional>
#include <utility>
#include <vector>

#include "scheduler/grants/refusal.h"
#include "scheduler/model/step_pace.h"

namespace es::scheduler {

struct FallBack {
  DeviceSet give_back;
  double seconds_before = 0;  // seconds of a global step before the grant
  double seconds_now = 0;
};

class GrantTrial {
 public:
  static constexpr double kSlowerMin = 0.05;

  // `refusals` are those that a previous head has journaled.
  explicit GrantTrial(std::vector<Refusal> refusals = {}) : refusals_(std::move(refusals)) {}

  // The job steps on these devices from now on. `capabilities` are the known ones. `chosen` is true
  // if the scheduler chose the devices, and false if a user did.
  void placed(const DeviceSet& devices, const Capabilities& capabilities, bool chosen);
  // This number of global steps was committed on the devices since the last call, or since
  // placed().
  void step(Seconds now, std::uint64_t steps = 1);
  // The devices to give back now; nullopt if the devices are not known to be worse.
  std::optional<FallBack> verdict() const;
  // Called when the verdict is carried out. REQUIRES: verdict() is not nullopt.
  void fall_back();
  // C_i of the type has changed to this value, by measurements on the current devices. Returns
  // whether a refusal ended because of that.
  bool capability_changed(const DeviceType& type, double steps_per_second);

  const std::vector<Refusal>& refusals() const { return refusals_; }
  // Seconds of a global step on the current devices; nullopt before they are known.
  std::optional<double> pace() const { return pace_.seconds(); }
  // The blocks of steps on the current devices.
  const StepPace& steps() const { return pace_; }

 private:
  struct Trial {
    DeviceSet held;  // devices before the grant
    double seconds = 0;
    Capabilities capabilities;
  };

  DeviceSet devices_;
  StepPace pace_;
  std::optional<Trial> trial_;
  std::vector<Refusal> refusals_;
};

}  // namespace es::scheduler
