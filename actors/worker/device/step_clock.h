#pragma once
// StepClock measures how a device spends its time in the local steps of one global step: computing,
// switching from one EST to the next, or waiting for a mini-batch. Users and the companion see the
// result. The only decision that depends on it is when ends of slices are reported
// (slice_queue.h). Not thread-safe.
#include <array>
#include <chrono>

#include "actors/base/protocol/core/instant.h"

namespace es::actors::worker {

inline double seconds_of(Instant duration) {
  return std::chrono::duration<double>(duration).count();
}

class StepClock {
 public:
  enum Use : std::size_t { kNothing, kCompute, kSwitch, kWait, kUses };

  // Begins a new step: all counts become zero, and the device waits for its first mini-batch.
  void restart() {
    spent_ = {};
    use_ = kWait;
    since_ = Clock::now();
  }
  // From now on, time is counted as `use`.
  void enter(Use use) {
    const auto now = Clock::now();
    spent_[use_] += now - since_;
    use_ = use;
    since_ = now;
  }
  // The time of this step that was counted as `use`, without the time since the last enter().
  Instant spent(Use use) const { return spent_[use]; }

 private:
  using Clock = std::chrono::steady_clock;
  std::array<Instant, kUses> spent_{};
  Use use_ = kNothing;
  Clock::time_point since_{};
};

}  // namespace es::actors::worker
