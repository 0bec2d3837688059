#pragma once
// The next time at which something is due for each of some jobs, which are named by their submit
// numbers. Times are seconds on the clock of the events. A plain value.
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "scheduler/model/seconds.h"

namespace es::actors {

class JobTimes {
 public:
  // A time that never comes removes the job.
  void set(std::uint64_t number, double at_s) {
    if (at_s < scheduler::kNever.count())
      at_s_[number] = at_s;
    else
      at_s_.erase(number);
  }
  void erase(std::uint64_t number) { at_s_.erase(number); }
  double of(std::uint64_t number) const {
    const auto at = at_s_.find(number);
    return at == at_s_.end() ? scheduler::kNever.count() : at->second;
  }
  // The jobs whose time has come, ascending. They stay.
  std::vector<std::uint64_t> due(double now_s) const {
    std::vector<std::uint64_t> numbers;
    for (const auto& [number, at_s] : at_s_)
      if (at_s <= now_s) numbers.push_back(number);
    return numbers;
  }
  // The earliest time; infinity: there is none.
  double next_s() const {
    double next_s = scheduler::kNever.count();
    for (const auto& [number, at_s] : at_s_) next_s = std::min(next_s, at_s);
    return next_s;
  }

 private:
  std::map<std::uint64_t, double> at_s_;
};

}  // namespace es::actors
