#pragma once
// The work of all jobs in seconds of the whole cluster, in exact integers. So the sum does not
// depend on the order in which jobs came and went, and no job has to be looked at as time passes.
// Not thread-safe.
#include <cstdint>
#include <map>
#include <vector>

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
    std::int64_t waits = 0;  // 1 if it holds nothing and is not pinned
    bool operator==(const Part&) const = default;
  };
  // The result stays the same while the forecast does, until its from_s and until the time when
  // alone_at() is 0.
  static Part part_of(const JobForecast& forecast, double now_s);
  // Adds the part (`sign` 1) or removes it (-1).
  void add(const Part& part, int sign);

  double seconds_at(double now_s) const;
  double widths() const;                             // sum over all jobs
  std::int64_t waiting() const { return waiting_; }  // jobs that wait

 private:
  using Wide = __int128;
  Wide work_ = 0, falls_ = 0, falls_from_ = 0;
  std::int64_t widths_ = 0;
  std::int64_t waiting_ = 0;
};

// The jobs that can use no other types than these, so that they compete for the same devices.
struct GroupLoad {
  std::uint64_t types = 0;  // type_bit() of each
  double devices = 0;       // of these types in the cluster
  double backlog_s = 0;     // work of the jobs, in seconds of these devices
  double widths = 0;        // sum over the jobs of the part of these devices that each can use
  double waiting = 0;       // number of the jobs that hold nothing and are not pinned
  bool operator==(const GroupLoad&) const = default;
};

// The backlogs of jobs by the device types that they can use.
class Backlogs {
 public:
  void add(std::uint64_t types, const Backlog::Part& part, int sign);
  // One load for each set of types that some job has, ascending. More than 16 sets count as one.
  std::vector<GroupLoad> loads_at(double now_s, const Counts& total) const;

 private:
  struct Group {
    Backlog backlog;
    std::int64_t jobs = 0;
  };
  GroupLoad load_of(std::uint64_t types, double now_s, const Counts& total) const;

  std::map<std::uint64_t, Group> groups_;
};

}  // namespace es::scheduler
