#pragma once
// Outlook: when the jobs that are there now would be done, served in a given order and nobody else
// arriving. A fluid model: a job takes what those before it leave, at most its own width, and has
// the time that its work needs; devices differ only by how much of the cluster they are.
//
// Pure functions of values; thread-safe.
#include <cstddef>
#include <span>
#include <vector>

namespace es::scheduler {

struct Task {
  double width = 1;   // most that it can use of the cluster, in (0, 1]
  double work_s = 0;  // seconds that it would take the whole cluster; work_s / width on its own
};

// The part of the cluster that is free at each time from now on: grows with time.
class FreeProfile {
 public:
  // All of the cluster is busy for so long.
  explicit FreeProfile(double busy_s);
  // When the task would be done, given all that it can use from now on.
  double finish(const Task& task) const;
  // Gives it that; returns when it is done.
  double place(const Task& task);

 private:
  struct Step {
    double end_s;
    double free;
  };
  std::vector<Step> steps_;  // ascending; after the last one everything is free
};

// Whether meet_deadline() surely has nothing to do: every task would be done by the deadline even
// if it began only when all those before it are done. Cost: one pass.
bool surely_in_time(std::span<const Task> tasks, double busy_s, double deadline_s);

struct Order {
  std::vector<std::size_t> tasks;  // indices, first served first
  double done_s = 0;               // when all are done
  std::size_t last = 0;            // which place in the order is done last
};

// The tasks in their order, changed only so that all are done by the deadline: again and again the
// one that would be done last moves forward, to the last place at which it makes the deadline (to
// the front, where none does). At most `moves_max` times. The cluster is busy for `busy_s` before.
// Cost: moves_max times the square of the number of tasks, at most.
Order meet_deadline(std::span<const Task> tasks, double busy_s, double deadline_s, int moves_max);

}  // namespace es::scheduler
