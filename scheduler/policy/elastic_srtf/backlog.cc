#include "scheduler/policy/elastic_srtf/backlog.h"

#include <algorithm>
#include <cmath>

#include "scheduler/policy/common/queue_entry.h"

namespace es::scheduler {

Backlog::Part Backlog::part_of(const JobForecast& forecast, double now_s) {
  constexpr double kWorkMax = 1 << 30;  // seconds; longer than any job
  Part part;
  part.waits = forecast.holds || forecast.pinned ? 0 : 1;
  if (!forecast.is_finite()) return part;
  // Fixed-point integers: their sums do not depend on the order of additions, and a part that is
  // subtracted leaves nothing behind. Rounding happens once for each part.
  part.width = std::llround(std::ldexp(forecast.width, 40));
  // The job would have ended by now, so only its width remains.
  if (now_s >= forecast.done_at_s()) return part;
  const double width = forecast.width * forecast.crowded_part;
  part.work = std::llround(std::ldexp(std::min(forecast.alone_s * width, kWorkMax), 32));
  // Before from_s the work does not fall.
  if (now_s <= forecast.from_s) return part;
  part.falls = std::llround(std::ldexp(forecast.alone_falls * width, 48));
  part.from = std::llround(std::ldexp(forecast.from_s, 16));
  return part;
}

void Backlog::add(const Part& part, int sign) {
  work_ += sign * Wide{part.work};
  falls_ += sign * Wide{part.falls};
  // The work of a part at a time is work - falls * (time - from). The sums of falls and of falls *
  // from give the sum for all parts without a pass over them.
  falls_from_ += sign * Wide{part.falls} * part.from;
  widths_ += sign * part.width;
  waiting_ += sign * part.waits;
}

double Backlog::seconds_at(double now_s) const {
  const auto now = static_cast<Wide>(std::llround(std::ldexp(now_s, 16)));
  // work_ has 32 bits behind the point; falls_ has 48 and times have 16, so products have 64. The
  // shift brings work_ to 64 too. 128 bits are needed for that.
  const Wide left = (work_ << 32) - (falls_ * now - falls_from_);
  return left <= 0 ? 0 : std::ldexp(static_cast<double>(left), -64);
}

double Backlog::widths() const {
  return std::ldexp(static_cast<double>(widths_), -40);
}

namespace {

constexpr std::size_t kGroupsMax = 16;

double devices_of(std::uint64_t types, const Counts& total) {
  double devices = 0;
  for (std::size_t t = 0; t < total.size(); ++t)
    if ((types & type_bit(t)) != 0) devices += total[t];
  return devices;
}

}  // namespace

void Backlogs::add(std::uint64_t types, const Backlog::Part& part, int sign) {
  Group& group = groups_[types];
  group.backlog.add(part, sign);
  group.jobs += sign;
  if (group.jobs == 0) groups_.erase(types);
}

// A job that can use a part of the types only is narrower beside all of them.
GroupLoad Backlogs::load_of(std::uint64_t types, double now_s, const Counts& total) const {
  GroupLoad load{.types = types, .devices = devices_of(types, total)};
  for (const auto& [inner, group] : groups_) {
    if ((inner & ~types) != 0 || load.devices <= 0) continue;
    const double part = devices_of(inner, total) / load.devices;
    load.backlog_s += group.backlog.seconds_at(now_s) * part;
    load.widths += group.backlog.widths() * part;
    load.waiting += static_cast<double>(group.backlog.waiting());
  }
  return load;
}

std::vector<GroupLoad> Backlogs::loads_at(double now_s, const Counts& total) const {
  std::vector<GroupLoad> loads;
  std::uint64_t all = 0;
  for (const auto& [types, group] : groups_) all |= types;
  if (groups_.size() > kGroupsMax) return {load_of(all, now_s, total)};
  for (const auto& [types, group] : groups_)
    if (types != 0) loads.push_back(load_of(types, now_s, total));
  return loads;
}

}  // namespace es::scheduler
