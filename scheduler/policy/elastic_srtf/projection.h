#pragma once
// Predicts when the present jobs end if they are served in a given order and no other job
// arrives. It is a fluid model: a job takes what the jobs before it leave, at most its own width,
// and needs the time of its work. Devices differ only in the part of the cluster that they are.
//
// Pure functions of values; thread-safe.
#include <cstddef>
#include <span>
#include <vector>

namespace es::scheduler {

struct Task {
  double width = 1;   // largest part of the cluster that it can use, in (0, 1]
  double work_s = 0;  // seconds of the whole cluster; alone it takes work_s / width
  // False for a job that is served in time in another way, so that nothing is moved for it.
  bool may_be_late = true;
};

// The part of the cluster that is free at each time from now on. It grows with time.
class FreeProfile {
 public:
  // The whole cluster is busy for this time.
  explicit FreeProfile(double busy_s);
  // The time at which the task would end if it got all that it can use from now on.
  double finish(const Task& task) const;
  // Gives the task that, and returns the time of its end.
  double allocate(const Task& task);

 private:
  struct Step {
    double end_s;
    double free;
  };
  std::vector<Step> steps_;  // ascending; after the last step everything is free
};

// Whether meet_deadline() surely has nothing to do: every task that may be late would end by the
// deadline even if it began only after all tasks before it have ended. The cost is one pass.
bool surely_in_time(std::span<const Task> tasks, double busy_s, double deadline_s);

struct ProjectedOrder {
  std::vector<std::size_t> tasks;  // indices in the order of service
  double done_s = 0;               // time at which all have ended that may be late
  std::size_t last = 0;            // position in the order of the one of them that ends last
};

// Keeps the order of the tasks, and changes it only so that all end by the deadline. Repeatedly,
// the task that would end last moves forward, to the last position at which it meets the deadline
// (to the front if there is none), at most `moves_max` times. The cluster is busy for `busy_s`
// before. The cost is at most moves_max times the square of the number of tasks.
ProjectedOrder meet_deadline(std::span<const Task> tasks, double busy_s, double deadline_s,
                             int moves_max);

}  // namespace es::scheduler
