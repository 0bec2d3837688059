#pragma once
// The type of times and durations that pass between the scheduler and its callers. A time is the
// duration since an origin that the caller chooses. Values; thread-safe.
//
// Formulas that combine a duration with speeds (seconds of a global step, seconds of work) use
// plain numbers of seconds, whose names end with _s or seconds.
#include <chrono>
#include <limits>

namespace es::scheduler {

using Seconds = std::chrono::duration<double>;

inline constexpr Seconds kNever{std::numeric_limits<double>::infinity()};

}  // namespace es::scheduler
