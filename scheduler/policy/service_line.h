#pragma once
// ServiceLine: what a job's place in the order of service depends on, written as a few numbers when
// its row changes: where its remaining work was, and how fast it falls. Its place at any later time
// follows from these and from that time, and stays as it is until a time that is known.
//
// Amounts that fall as time passes are ranked by steps of a few percent (step_of), so a place
// changes now and then and not all the time. Pure functions of values; thread-safe.
#include <cstdint>
#include <limits>

#include "scheduler/policy/outlook.h"
#include "scheduler/policy/place_list.h"

namespace es::scheduler {

// The number of the step that x >= 0 is on: 16 steps between x and 2 * x, ascending with x.
std::int64_t step_of(double x);
// The smallest x on this step.
double step_begin(std::int64_t step);

// Seconds, but where it says otherwise.
struct ServiceLine {
  std::uint64_t number = 0;
  std::uint32_t slot = 0;
  bool known = false;  // length and speed are
  bool holds = false;
  bool pinned = false;
  bool keeps_minimum = false;
  bool best_off = false;
  std::int64_t priority_rank = 0;
  double alone_s = 0;      // with its best devices, at from_s
  double alone_falls = 0;  // per second, from from_s on; at most 1
  double from_s = 0;
  double width = 0;  // of the cluster
  double submit_s = 0;
  double paused_until_s = 0;  // -kNever when it holds nothing
  double pause_s = 0;         // a change of its devices costs
  double key_s = 0;           // to be added to alone_s for the key
  double fair_alone_s = 0;    // from start to end, were the cluster its own
  double fair_shared_s = 0;   // as much with all speeds there are, times the number of jobs
  double job_seconds_at_submit = 0;
  double deadline_s = kNever;

  // With its best devices from then on; never rises while the line stays the same.
  // Board::kUnknownSteps: not known.
  double alone_at(double now_s) const;
  double done_at_s() const;  // when alone_at() is 0, should it go on like this
  Task task_at(double now_s) const;
  // Of a finite length: part of projections.
  bool is_finite() const { return known && alone_s < Board::kUnknownSteps; }
  bool is_narrow() const;
};

// Work of all jobs in seconds of the whole cluster, exactly: the same whatever the order in which
// jobs came and went, and without looking at each of them as time passes.
class Backlog {
 public:
  // A line as of some time; it counts as such until it is taken out.
  struct Part {
    std::int64_t work = 0;   // in units of 2^-32 s, at from
    std::int64_t falls = 0;  // per second, in units of 2^-48
    std::int64_t from = 0;   // in units of 2^-16 s
    std::int64_t width = 0;  // in units of 2^-40
    bool operator==(const Part&) const = default;
  };
  // Stays the same while the line does, until from_s and the time when alone_s is 0.
  static Part part_of(const ServiceLine& line, double now_s);
  void add(const Part& part, int sign);

  double seconds_at(double now_s) const;
  double widths() const;  // of all jobs together

 private:
  using Wide = __int128;
  Wide work_ = 0, falls_ = 0, falls_from_ = 0;
  std::int64_t widths_ = 0;
};

// Where a job stands at a moment, and until when.
struct Standing {
  Place place;
  // Class kCritical rather than kOrdinary, if its step of alone_s is at least the threshold.
  bool may_be_critical = false;
  std::int64_t alone_step = 0;
  double ages_s = kNever;  // when it may age, if nothing happens; of a job that
                           // waits, and is soon
  bool waits = false;      // it may age, but not soon
  // Everything here stays the same before this time, while the integral is at most this.
  double next_s = kNever;
  double next_job_seconds = kNever;
};

struct ServiceRules {
  double rho_max = 2;
  std::int64_t critical_step = std::numeric_limits<std::int64_t>::max();
};

// A job that may age within so many seconds is watched at every decision; so often a policy wants
// to be asked while others wait.
inline constexpr double kAgesSoon = 600;

// `board`: has the row of which the line was written.
Standing standing_at(const ServiceLine& line, const Board& board, const ServiceRules& rules);

}  // namespace es::scheduler
