#include "scheduler/policy/elastic_srtf/backlog.h"

#include <algorithm>
#include <cmath>

namespace es::scheduler {

Backlog::Part Backlog::part_of(const JobForecast& forecast, double now_s) {
  if (!forecast.is_finite()) return {};
  constexpr double kWorkMax = 1 << 30;  // seconds; longer than any job
  Part part;
  part.width = std::llround(std::ldexp(forecast.width, 40));
  if (now_s >= forecast.done_at_s()) return part;
  part.work = std::llround(std::ldexp(std::min(forecast.alone_s * forecast.width, kWorkMax), 32));
  if (now_s <= forecast.from_s) return part;
  part.falls = std::llround(std::ldexp(forecast.alone_falls * forecast.width, 48));
  part.from = std::llround(std::ldexp(forecast.from_s, 16));
  return part;
}

void Backlog::add(const Part& part, int sign) {
  work_ += sign * Wide{part.work};
  falls_ += sign * Wide{part.falls};
  falls_from_ += sign * Wide{part.falls} * part.from;
  widths_ += sign * part.width;
}

double Backlog::seconds_at(double now_s) const {
  const auto now = static_cast<Wide>(std::llround(std::ldexp(now_s, 16)));
  const Wide left = (work_ << 32) - (falls_ * now - falls_from_);
  return left <= 0 ? 0 : std::ldexp(static_cast<double>(left), -64);
}

double Backlog::widths() const {
  return std::ldexp(static_cast<double>(widths_), -40);
}

}  // namespace es::scheduler
