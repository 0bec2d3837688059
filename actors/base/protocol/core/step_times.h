#pragma once
// How often something took how long: the number of times in fixed ranges.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace es::actors {

// `Bounds` are the upper bounds of the ranges in seconds, ascending; the last range has none.
template <const auto& Bounds>
struct TimeCounts {
  // The number of times in each range, Bounds.size() + 1 of them; empty: nothing was added yet.
  std::vector<std::uint64_t> counts;
  double seconds = 0;  // the sum of all times

  void add(double taken_seconds) {
    counts.resize(Bounds.size() + 1);
    std::size_t range = 0;
    while (range < Bounds.size() && taken_seconds > Bounds.at(range)) ++range;
    ++counts[range];
    seconds += taken_seconds;
  }
};

inline constexpr std::array kStepTimeBounds{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,  0.2,
                                            0.5,   1.0,   2.0,   5.0,  10.0, 30.0, 60.0, 300.0};
// How long the global steps of a job took.
using StepTimes = TimeCounts<kStepTimeBounds>;

inline constexpr std::array kDecisionTimeBounds{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01,
                                                0.02,   0.05,   0.1,    0.2,   0.5,   1.0,   5.0};
// How long the scheduler took for its decisions.
using DecisionTimes = TimeCounts<kDecisionTimeBounds>;

}  // namespace es::actors
