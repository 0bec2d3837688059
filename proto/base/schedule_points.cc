#include "proto/base/schedule_points.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "proto/base/check.h"
#include "proto/base/number_text.h"

namespace es {
namespace {

template <class Number>
bool read_whole(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<SchedulePoint> parse_point(std::string_view text) {
  const std::size_t colon = text.find(':');
  SchedulePoint point;
  if (colon == std::string_view::npos || !read_whole(text.substr(0, colon), point.step) ||
      !read_whole(text.substr(colon + 1), point.value))
    return std::nullopt;
  return point;
}

}  // namespace

Result<std::vector<SchedulePoint>> parse_schedule_points(std::string_view key,
                                                         std::string_view text) {
  std::vector<SchedulePoint> points;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    const std::optional<SchedulePoint> point = parse_point(part);
    if (!point || comma + 1 == text.size())
      return usage_error(std::string(key) + ": \"" + std::string(part.substr(0, 60)) +
                         (point ? ",\"" : "\"") +
                         " is not STEP:VALUE; allowed is STEP:VALUE[,STEP:VALUE...], e.g. "
                         "0:0.1,50:1,100:0");
    points.push_back(*point);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return points;
}

std::string schedule_points_text(const std::vector<SchedulePoint>& points) {
  std::string text;
  for (const SchedulePoint& point : points)
    text += (text.empty() ? "" : ",") + std::to_string(point.step) + ":" + number_text(point.value);
  return text;
}

double value_at(const std::vector<SchedulePoint>& points, std::uint64_t step) {
  ES_CHECK(!points.empty() && points.front().step == 0);
  const auto behind =
      std::upper_bound(points.begin(), points.end(), step,
                       [](std::uint64_t at, const SchedulePoint& p) { return at < p.step; });
  const SchedulePoint& a = *(behind - 1);
  if (behind == points.end()) return a.value;
  const SchedulePoint& b = *behind;
  return a.value + (b.value - a.value) *
                       (static_cast<double>(step - a.step) / static_cast<double>(b.step - a.step));
}

}  // namespace es
