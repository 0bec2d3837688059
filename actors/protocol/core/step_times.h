#pragma once
// How long the global steps of a job took, as the number of steps in fixed ranges of time.
#include <array>
#include <cstdint>
#include <vector>

namespace es::actors {

// The upper bounds of the ranges in seconds; the last range has none.
inline constexpr std::array kStepTimeBounds{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,  0.2,
                                            0.5,   1.0,   2.0,   5.0,  10.0, 30.0, 60.0, 300.0};

struct StepTimes {
  // The number of steps in each range, kStepTimeBounds.size() + 1 of them; empty: no step yet.
  std::vector<std::uint64_t> counts;
  double seconds = 0;  // the sum of all times

  void add(double step_seconds) {
    counts.resize(kStepTimeBounds.size() + 1);
    std::size_t range = 0;
    while (range < kStepTimeBounds.size() && step_seconds > kStepTimeBounds.at(range)) ++range;
    ++counts[range];
    seconds += step_seconds;
  }
};

}  // namespace es::actors
