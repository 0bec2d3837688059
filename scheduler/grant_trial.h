#pragma once
// Role 3: a grant is applied, measured, and given back when the job became slower. Pure: times are
// passed in, in seconds from any origin; not thread-safe.
//
//   trial      begins when the job steps on the devices it had and more, and its pace on those it
//              had is known (step_pace.h); it ends with the first pace on the new ones
//   slower     pace now > (1 + kSlowerMin) * pace before: all that was added is given back. Grants
//              that came before the first was measured are judged together with it
//   refused    from then on the job neither asks for what it fell back to with more devices of the
//              types that were added, nor is it given that (refusal.h, policy/policy.h), until a
//              C_i measured on what it fell back to differs by more than kCapabilityChangeMin from
//              what it was before the grant. What C_i was on more devices does not count: they may
//              slow each other down, and the job would ping-pong
//
// So a job is never left slower after a grant once both paces are measured, and tries the same
// grant again only when the devices have become others. Devices that a user has pinned are not
// judged.
#include <optional>
#include <utility>
#include <vector>

#include "scheduler/refusal.h"
#include "scheduler/step_pace.h"

namespace es::scheduler {

struct FallBack {
  DeviceSet give_back;
  double seconds_before = 0;  // of a global step
  double seconds_now = 0;
};

class GrantTrial {
 public:
  static constexpr double kSlowerMin = 0.05;

  // `refusals`: of an earlier head.
  explicit GrantTrial(std::vector<Refusal> refusals = {}) : refusals_(std::move(refusals)) {}

  // The job steps on these devices from now on. `capabilities`: known so far. `chosen`: by the
  // scheduler, not by a user.
  void placed(const DeviceSet& devices, const Capabilities& capabilities, bool chosen);
  // So many global steps were committed on them since the last call, or since they were placed.
  void step(double now_seconds, std::uint64_t steps = 1);
  // What to give back now; none: nothing is known against the devices.
  std::optional<FallBack> verdict() const;
  // The verdict is being carried out.
  void fall_back();
  // C_i became this, by measurements on the devices of now. Whether a refusal has ended by that.
  bool capability_changed(const DeviceType& type, double steps_per_second);

  const std::vector<Refusal>& refusals() const { return refusals_; }
  // Of the devices of now, seconds of a global step.
  std::optional<double> pace() const { return pace_.seconds(); }

 private:
  struct Trial {
    DeviceSet held;  // before the grant
    double seconds = 0;
    Capabilities capabilities;
  };

  DeviceSet devices_;
  StepPace pace_;
  std::optional<Trial> trial_;
  std::vector<Refusal> refusals_;
};

}  // namespace es::scheduler
