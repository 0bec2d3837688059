#pragma once
// JobTimer decides which timers an intra-job scheduler sets. A timer cannot be withdrawn, so an
// earlier one than the newest may fire, and the owner must accept a tick at any time.
//
// One owner.
#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "actors/base/protocol/core/instant.h"

namespace es::actors {

class JobTimer {
 public:
  // `set` sets a timer that fires after this time.
  explicit JobTimer(std::function<void(Instant)> set) : set_(std::move(set)) {}

  // Has a timer fire soon after `due`, unless an earlier one is set. The time is rounded up to
  // whole seconds, so that a job that changes often does not set a timer for each change.
  void arm(std::optional<Instant> due, Instant now) {
    if (!due) return;
    const Instant at = std::max((*due / kInterval + 1) * Instant(kInterval), now);
    if (armed_ && *armed_ <= at) return;
    armed_ = at;
    ++running_;
    set_(at - now);
  }
  // Call when a timer has fired.
  void fired() {
    --running_;
    armed_.reset();
  }
  // Whether a timer has not fired yet.
  bool is_running() const { return running_ > 0; }

 private:
  static constexpr auto kInterval = std::chrono::seconds(1);

  std::function<void(Instant)> set_;
  std::optional<Instant> armed_;  // time of the next timer
  int running_ = 0;
};

}  // namespace es::actors
