#pragma once
// JobForecast: how long a job would still run with its best devices, as a function of time. It is
// written when the row of the job changes: the remaining time then, and how fast it falls. The
// place of the job in the order of service at any later time follows from these numbers and that
// time. Pure functions of values; thread-safe.
#include <cstdint>

#include "scheduler/policy/common/cluster_table.h"
#include "scheduler/policy/elastic_srtf/projection.h"

namespace es::scheduler {

// Amounts that fall as time passes are ranked in logarithmic steps of 3 to 6 percent, so a place in
// the order changes now and then and not all the time.
//
// The number of the step on which x >= 0 lies. There are 16 steps between x and 2 * x, ascending
// with x.
std::int64_t log_step(double x);
// The smallest x on this step.
double log_step_begin(std::int64_t step);
// The same with 512 steps between x and 2 * x. Criticality needs it: a job that becomes critical 3
// percent too early takes devices from jobs that would end soon.
std::int64_t fine_step(double x);
double fine_step_begin(std::int64_t step);

// The part of its devices that must compute: smaller sets of devices are chosen if larger ones
// would mostly wait for each other. 0.6 costs 0.4 % of the mean completion time, 0.9 changes
// nothing on average and costs up to 6 % on single loads.
inline constexpr double kEfficient = 0.8;

// All times are in seconds, unless stated otherwise.
struct JobForecast {
  std::uint64_t number = 0;
  std::uint32_t slot = 0;
  bool known = false;  // length and speed are known
  bool holds = false;
  bool pinned = false;
  bool keeps_minimum = false;
  bool at_optimum = false;
  std::int64_t priority_rank = 0;
  double alone_s = 0;      // with its best devices, at from_s
  double alone_falls = 0;  // per second, from from_s on; at most 1
  double from_s = 0;
  std::uint64_t types = 0;  // type_bit() of the types that it can use
  double width = 0;         // part of the devices of these types
  double share = 1;         // of these devices in all devices of the cluster
  // Part of alone * width that the job needs in a crowded cluster. Its best devices may mostly wait
  // for each other; then it is given fewer, of which kEfficient compute.
  double crowded_part = 1;
  double submit_s = 0;
  double paused_until_s = 0;  // -kNeverS if it holds less than its minimum
  double pause_s = 0;         // cost of a change of its devices
  double key_s = 0;           // added to alone_s for the key
  double fair_alone_s = 0;    // from start to end with its best devices
  double fair_shared_s = 0;  // the same at the speed of the whole cluster; times the number of jobs
  double job_seconds_at_submit = 0;
  double deadline_s = kNeverS;

  // Remaining seconds with its best devices from then on. Never rises while the forecast stays the
  // same. ClusterTable::kUnknownSteps if not known.
  double alone_at(double now_s) const;
  double done_at_s() const;  // when alone_at() is 0 if nothing changes
  double age_at(double now_s) const { return now_s - submit_s; }
  // Seconds from its submission to its end, if it always had a 1/n share of the cluster.
  double fair_s(double jobs) const;
  // What its best devices compute, as a part of the whole cluster.
  double part_of_cluster() const { return width * share; }
  // What the ordinary class is sorted by, divided by part_of_cluster(): alone + start - pause.
  double ordinary_s(double now_s) const;
  Task task_at(double now_s) const;
  // What it adds to the work of all jobs: seconds of all devices that it can use.
  double crowded_work_s(double now_s) const;
  // Whether the length is finite, so that the job is part of projections.
  bool is_finite() const { return known && alone_s < ClusterTable::kUnknownSteps; }
  // Whether its best devices are at most a quarter of the cluster.
  bool is_narrow() const;
  // Of two jobs that are critical or late, the one that holds devices counts for 6 percent more, so
  // that it does not lose its place at once after it got it.
  double hold_factor() const;
  // The seconds that decide whether a narrow job is on the critical path: those that it still
  // needs, times hold_factor(), with the change that they begin with.
  double critical_s(double now_s) const;
};

// REQUIRES: row.present.
JobForecast forecast_of(const ClusterTable& table, const JobRow& row);

}  // namespace es::scheduler
