#pragma once
// StepClock measures how a device spends its time in the local steps of one global step: computing,
// switching from one EST to the next, or waiting for a mini-batch. Users and the companion see the
// result; no decision of the worker depends on it. Not thread-safe.
#include <array>
#include <chrono>

namespace es::actors {

class StepClock {
 public:
  enum Use : std::size_t { kNothing, kCompute, kSwitch, kWait, kUses };

  // Begins a new step: all counts become zero, and the device waits for its first mini-batch.
  void restart() {
    seconds_ = {};
    use_ = kWait;
    since_ = Now::now();
  }
  // From now on, time is counted as `use`.
  void enter(Use use) {
    const auto now = Now::now();
    seconds_[use_] += std::chrono::duration<double>(now - since_).count();
    use_ = use;
    since_ = now;
  }
  double seconds(Use use) const { return seconds_[use]; }

 private:
  using Now = std::chrono::steady_clock;
  std::array<double, kUses> seconds_{};
  Use use_ = kNothing;
  Now::time_point since_{};
};

}  // namespace es::actors
