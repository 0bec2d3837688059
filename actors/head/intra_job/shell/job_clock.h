#pragma once
// JobClock has the times of one job. The core's time stands still while an effect waits whose
// answer has a time limit: the limit must not run before the effect is performed. The real time
// passes always; traces use it.
//
// One owner. It calls the two functions that it was given and nothing else.
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "actors/base/protocol/core/instant.h"

namespace es::actors {

class JobClock {
 public:
  // `real`: the time of the process. `unix_ms`: the date, for people; 0: there is none, as in
  // simulations.
  JobClock(std::function<Instant()> real, std::function<std::uint64_t()> unix_ms)
      : real_(std::move(real)), unix_ms_(std::move(unix_ms)) {}

  Instant real() const { return real_(); }
  std::uint64_t unix_ms() const { return unix_ms_(); }
  // The core's time.
  Instant now() const { return stands_still_at_ ? *stands_still_at_ : real() - stood_still_; }
  // The date at which the core's time was 0; 0: there is no date.
  std::uint64_t date_of_zero() const {
    const std::uint64_t date = unix_ms();
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now()).count();
    return date == 0 ? 0 : date - static_cast<std::uint64_t>(passed);
  }

  // Does nothing if the time stands still already.
  void stand_still() {
    if (!stands_still_at_) stands_still_at_ = now();
  }
  // Does nothing if the time passes.
  void go_on() {
    if (stands_still_at_) stood_still_ = real() - *stands_still_at_;
    stands_still_at_.reset();
  }

 private:
  std::function<Instant()> real_;
  std::function<std::uint64_t()> unix_ms_;
  std::optional<Instant> stands_still_at_;  // in the core's time
  Instant stood_still_{};                   // total, up to the last go_on()
};

}  // namespace es::actors
