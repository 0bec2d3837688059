#pragma once
// Predicts when jobs would end if all of them had equal shares of the cluster from now on and no
// other job arrived. The fair end of elastic-srtf (fair_order.h) needs the number of jobs at later
// times, because the fair share of a job depends on it.
//
// Pure function of values; thread-safe.
#include <span>
#include <vector>

namespace es::scheduler {

struct SharingTask {
  double alone_s = 0;  // seconds to its end with its best devices, >= 0
  double width = 1;    // the part of the cluster that these are, in (0, 1]
};

struct SharedEnd {
  double ahead_s = 0;  // seconds from now to its end
  double job_s = 0;    // integral of the number of tasks over this time
};

// With n tasks left, each runs at min(1, 1 / (n * width)) of its best speed. The result has an
// entry for each task: when it would end if it alone ran at min(1, shares / (n * width)). `shares`
// is at least 1. Time passes in 64 steps of 30 s to 34 days, so the cost is linear in the number of
// tasks, and the result is exact while n does not change within a step.
std::vector<SharedEnd> project_shared_ends(std::span<const SharingTask> tasks, double shares);

}  // namespace es::scheduler
