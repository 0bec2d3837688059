#pragma once
// Role 3: a grant is applied, measured, and given back when the job became slower. Pure: times are
// passed in, in seconds from any origin; not thread-safe.
//
//   trial      begins when the job steps on the devices it had and more, and its pace on those it
//              had is known (step_pace.h); it ends with the first pace on the new ones
//   slower     pace now > (1 + kSlowerMin) * pace before: all that was added is given back. Grants
//              that came before the first was measured are judged together with it
//   refused    from then on the job asks for no device of the types that were added while it holds
//              exactly what it fell back to, until a C_i measured on these devices differs by more
//              than kCapabilityChangeMin from what it was before the grant. What C_i was on more
//              devices does not count: they may slow each other down, and the job would ping-pong
//
// So a job is never left slower after a grant once both paces are measured, and tries the same
// grant again only when the devices have become others. Devices that a user has pinned are not
// judged.
#include <optional>
#include <vector>

#include "scheduler/model.h"
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

  // The job steps on these devices from now on. `capabilities`: known so far. `chosen`: by the
  // scheduler, not by a user.
  void placed(const DeviceSet& devices, const Capabilities& capabilities, bool chosen);
  // So many global steps were committed on them since the last call, or since they were placed.
  void step(double now_seconds, std::uint64_t steps = 1);
  // What to give back now; none: nothing is known against the devices.
  std::optional<FallBack> verdict() const;
  // The verdict is being carried out.
  void fall_back();
  // C_i became this, by measurements on the devices of now.
  void capability_changed(const DeviceType& type, double steps_per_second);

  // Whether a job that holds these devices must not ask for more of the type.
  bool refuses(const DeviceSet& held, const DeviceType& type) const;
  // Of the devices of now, seconds of a global step.
  std::optional<double> pace() const { return pace_.seconds(); }

 private:
  struct Trial {
    DeviceSet held;  // before the grant
    double seconds = 0;
    Capabilities capabilities;
  };
  struct Refused {
    DeviceSet held;
    std::vector<DeviceType> types;  // that were added
    Capabilities capabilities;      // known before the grant
  };

  DeviceSet devices_;
  StepPace pace_;
  std::optional<Trial> trial_;
  std::vector<Refused> refused_;
};

}  // namespace es::scheduler
