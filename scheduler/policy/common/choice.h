#pragma once
// Choice: the best devices for one job out of those that are left.
#include <span>
#include <vector>

#include "scheduler/policy/common/cluster_table.h"

namespace es::scheduler {

struct Choice {
  Counts counts;              // empty if the job cannot run on what is left
  double speed = 0;           // local steps per second
  double finish_s = kNeverS;  // best_choice() minimises this
  // When the job may be given other devices although nothing has happened: until then they would
  // not pay before its next change. kNeverS if nothing waits for that.
  double again_s = kNeverS;
};

struct ChoiceLimits {
  // A set is worth its devices if speed >= efficiency_min * sum of their capabilities, and also if
  // a job that has less than its minimum can run on no other.
  double efficiency_min = 0;
  // Seconds. A job that would take longer with what it holds is not in time.
  double in_time_s = kNeverS;
};

// A change must gain this many times its own pause, because the devices that the job moves to or
// leaves cause changes of other jobs too. Half as many cost 11 % more rescales, twice as many 0.6 %
// of the mean completion time under elastic-srtf.
inline constexpr double kPausesToGain = 3;

// In twice the mean interval between its changes so far a job that could keep what it holds must
// gain as much: others will probably take some of the devices from it again by then. Means change
// by at most 0.1 % if this is 0 or twice as much; on the SC '23 trace at 120 s a rescale it brings
// 10 %.
inline constexpr double kPausesInInterval = kPausesToGain / 2;

// Chooses the set out of `left` with which the job is done first:
//
//   finish = remaining / speed + kPausesToGain * pause
//
// `pause` is the measured cost of getting these devices; it is 0 for the devices that the job
// holds. A job of age a whose devices have changed k times, and that would end in time with what it
// holds, keeps that unless
//
//   (1 - held speed / speed) * a / k > kPausesInInterval * pause
//
// Ties go to what it holds, then to fewer devices. The choice keeps the rules of policy.h
// for grants. Without any known speed only what it holds, or its minimum of one type, is chosen. A
// set that the job refuses is replaced by the devices to which it falls back.
Choice best_choice(const ClusterTable& table, const JobRow& row,
                   std::span<const std::uint32_t> left, const ChoiceLimits& limits);

// Cheap bounds of best_choice(), for jobs that are not pinned. If the result is true, best_choice()
// would surely return what the job holds (no other set out of `left` could be faster by more than
// its pause), or no set at all, respectively.
bool surely_keeps(const ClusterTable& table, const JobRow& row,
                  std::span<const std::uint32_t> left);
bool surely_gets_nothing(const ClusterTable& table, const JobRow& row,
                         std::span<const std::uint32_t> left);

// All or nothing, for policies without elastic scaling: max_devices (or as many as exist, or as the
// queue of the job may have, or as are useful if its communication is known) of one type, one set
// for each type that the job can use. The type that the owner asked for is first, then the others
// by speed. In place of a set that the job refuses, that to which it falls back. Of a job that has
// lost a part of its minimum: this minimum on the type that it holds.
std::vector<Counts> gangs_of(const ClusterTable& table, const JobRow& row);

// The speed of the job on these devices.
double speed_on(const ClusterTable& table, const JobRow& row,
                std::span<const std::uint32_t> counts);

}  // namespace es::scheduler
