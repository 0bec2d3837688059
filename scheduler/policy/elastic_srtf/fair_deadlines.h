#pragma once
// By when each of several jobs has to end so that none is later than necessary: the least largest
// stretch (M. A. Bender, S. Chakrabarti, S. Muthukrishnan, "Flow and stretch metrics for scheduling
// continuous job streams", SODA 1998), with the time that a job takes with a fair share of the
// cluster in place of its length. Pure functions of values; thread-safe.
#include <cstdint>
#include <vector>

namespace es::scheduler {

// All times are in seconds.
struct FairTask {
  std::uint64_t number = 0;  // of two equal deadlines that of the smaller number comes first
  double submit_s = 0;
  double fair_s = 1;   // from submission to end with a fair share, > 0
  double alone_s = 0;  // that it still needs with its best devices, pauses included
  double work_s = 0;   // the same if the whole cluster worked for it
};

struct FairDeadline {
  double deadline_s = 0;   // submit_s + stretch * fair_s
  double own_slack_s = 0;  // how long the job can wait until it must have its best devices
  // How long it can wait until it, or one with a later deadline, is too late; <= own_slack_s.
  double slack_s = 0;
};

// One entry for each task. The stretch is the least one from `stretch_min` on with which every task
// is in time if the cluster works for them one after the other, the earliest deadline first, and
// none takes less than alone_s. Costs n * log(n) for n tasks, about three times.
std::vector<FairDeadline> fair_deadlines(std::vector<FairTask> tasks, double now_s,
                                         double stretch_min);

}  // namespace es::scheduler
