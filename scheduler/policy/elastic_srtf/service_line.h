#pragma once
// ServiceLine contains the few numbers on which a job's place in the order of service depends. They
// are written when its row changes: its remaining work at that time, and how fast it falls. The
// place at any later time follows from these numbers and that time, and it stays the same until a
// time that can be computed.
//
// Amounts that fall as time passes are ranked in steps of a few percent (step_of), so a place
// changes now and then and not all the time. Pure functions of values; thread-safe.
#include <cstdint>
#include <limits>

#include "scheduler/policy/common/outlook.h"
#include "scheduler/policy/common/place_list.h"

namespace es::scheduler {

// The number of the step on which x >= 0 lies. There are 16 steps between x and 2 * x, ascending
// with x.
std::int64_t step_of(double x);
// The smallest x on this step.
double step_begin(std::int64_t step);

// All times are in seconds, unless stated otherwise.
struct ServiceLine {
  std::uint64_t number = 0;
  std::uint32_t slot = 0;
  bool known = false;  // length and speed are known
  bool holds = false;
  bool pinned = false;
  bool keeps_minimum = false;
  bool best_off = false;
  std::int64_t priority_rank = 0;
  double alone_s = 0;      // with its best devices, at from_s
  double alone_falls = 0;  // per second, from from_s on; at most 1
  double from_s = 0;
  double width = 0;  // part of the cluster
  double submit_s = 0;
  double paused_until_s = 0;  // -kNever if it holds nothing
  double pause_s = 0;         // cost of a change of its devices
  double key_s = 0;           // added to alone_s for the key
  double fair_alone_s = 0;    // from start to end with its best devices
  double fair_shared_s = 0;  // the same at the speed of the whole cluster; times the number of jobs
  double job_seconds_at_submit = 0;
  double deadline_s = kNever;

  // Remaining seconds with its best devices from then on. Never rises while the line stays the
  // same. Board::kUnknownSteps if not known.
  double alone_at(double now_s) const;
  double done_at_s() const;  // when alone_at() is 0 if nothing changes
  Task task_at(double now_s) const;
  // Whether the length is finite, so that the job is part of projections.
  bool is_finite() const { return known && alone_s < Board::kUnknownSteps; }
  bool is_narrow() const;
};

// The work of all jobs in seconds of the whole cluster, in exact integers. It does not depend on
// the order in which jobs came and went, and no job has to be looked at as time passes.
class Backlog {
 public:
  // The contribution of a line as of some time. It is valid until it is removed.
  struct Part {
    std::int64_t work = 0;   // in units of 2^-32 s, at from
    std::int64_t falls = 0;  // per second, in units of 2^-48
    std::int64_t from = 0;   // in units of 2^-16 s
    std::int64_t width = 0;  // in units of 2^-40
    bool operator==(const Part&) const = default;
  };
  // The result stays the same while the line does, until from_s and until the time when alone_s is
  // 0.
  static Part part_of(const ServiceLine& line, double now_s);
  void add(const Part& part, int sign);

  double seconds_at(double now_s) const;
  double widths() const;  // sum over all jobs

 private:
  using Wide = __int128;
  Wide work_ = 0, falls_ = 0, falls_from_ = 0;
  std::int64_t widths_ = 0;
};

// The place of a job at a moment, and the time until which it is valid.
struct Standing {
  Place place;
  // The job is in class kCritical instead of kOrdinary if its step of alone_s is at least the
  // threshold.
  bool may_be_critical = false;
  std::int64_t alone_step = 0;
  double ages_s = kNever;  // when it may age, if it waits and that is soon and nothing else happens
  bool waits = false;      // it may age, but not soon
  // All members stay the same before this time, while the integral of the number of jobs is at most
  // next_job_seconds.
  double next_s = kNever;
  double next_job_seconds = kNever;
};

struct ServiceRules {
  double rho_max = 2;
  std::int64_t critical_step = std::numeric_limits<std::int64_t>::max();
};

// Seconds. A job that may age within this time is looked at in every decision. While other jobs
// wait, the policy wants to be asked again after this time.
inline constexpr double kAgesSoon = 600;

// `board` contains the row from which the line was written.
Standing standing_at(const ServiceLine& line, const Board& board, const ServiceRules& rules);

}  // namespace es::scheduler
