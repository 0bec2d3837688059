#pragma once
// ClusterClock: the clock of ClusterCore's events beside the date. The journal and clients have
// dates, and the core has a clock that began at another moment, so times are converted by their
// distance from now.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

namespace es::actors {

struct ClusterClock {
  std::function<double()> now_s;           // the clock of the events
  std::function<std::uint64_t()> unix_ms;  // the date

  // Negative for a date that is still to come.
  double seconds_since(std::uint64_t date_ms) const {
    return (static_cast<double>(unix_ms()) - static_cast<double>(date_ms)) / 1e3;
  }
  // Negative for a date that has passed.
  double seconds_until(std::uint64_t date_ms) const {
    return (static_cast<double>(date_ms) - static_cast<double>(unix_ms())) / 1e3;
  }
  // A date as a time of the events.
  double time_of(std::uint64_t date_ms) const { return now_s() + seconds_until(date_ms); }
  // A time of the events as a date; a time that has passed counts as now.
  std::uint64_t date_of(double time_s) const {
    return unix_ms() +
           static_cast<std::uint64_t>(std::llround(std::max(0.0, time_s - now_s()) * 1e3));
  }
};

}  // namespace es::actors
