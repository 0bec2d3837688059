#pragma once
// The work of all jobs in seconds of the whole cluster, in exact integers. So the sum does not
// depend on the order in which jobs came and went, and no job has to be looked at as time passes.
// Not thread-safe.
#include <cstdint>

#include "scheduler/policy/elastic_srtf/job_forecast.h"

namespace es::scheduler {

class Backlog {
 public:
  // The contribution of a job as of some time. It is valid until it is removed.
  struct Part {
    std::int64_t work = 0;   // in units of 2^-32 s, at from
    std::int64_t falls = 0;  // per second, in units of 2^-48
    std::int64_t from = 0;   // in units of 2^-16 s
    std::int64_t width = 0;  // in units of 2^-40
    bool operator==(const Part&) const = default;
  };
  // The result stays the same while the forecast does, until its from_s and until the time when
  // alone_at() is 0.
  static Part part_of(const JobForecast& forecast, double now_s);
  // Adds the part (`sign` 1) or removes it (-1).
  void add(const Part& part, int sign);

  double seconds_at(double now_s) const;
  double widths() const;  // sum over all jobs

 private:
  using Wide = __int128;
  Wide work_ = 0, falls_ = 0, falls_from_ = 0;
  std::int64_t widths_ = 0;
};

}  // namespace es::scheduler
