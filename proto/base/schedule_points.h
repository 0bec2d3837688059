#pragma once
// A number that changes with the global steps, given at some of them.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"

namespace es {

struct SchedulePoint {
  std::uint64_t step = 0;  // global step, from 0
  double value = 0.0;
  bool operator==(const SchedulePoint&) const = default;
};

// Parses "STEP:VALUE[,STEP:VALUE...]", e.g. "0:0.1,50:1,100:0"; an empty text has no points.
// Error (usage): the text has another form. The message names `key` and the part that is wrong. The
// order and the range of the points are not checked; validate() does that.
Result<std::vector<SchedulePoint>> parse_schedule_points(std::string_view key,
                                                         std::string_view text);
// Reads back as exactly these points.
std::string schedule_points_text(const std::vector<SchedulePoint>& points);

// The number at `step`: between two points a + (b - a) * ((step - step_a) / (step_b - step_a)) in
// fp64, and that of the last point behind it. REQUIRES: the first point is that of step 0, and the
// steps rise.
double value_at(const std::vector<SchedulePoint>& points, std::uint64_t step);

}  // namespace es
