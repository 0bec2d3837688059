#include "scheduler/policy/elastic_srtf/projection.h"

#include <algorithm>
#include <numeric>

namespace es::scheduler {
namespace {

constexpr double kNegligible = 1e-9;  // a smaller part of the cluster than any device is

void project(std::span<const Task> tasks, double busy_s, ProjectedOrder& order) {
  FreeProfile profile(busy_s);
  order.done_s = 0;
  for (std::size_t i = 0; i < order.tasks.size(); ++i) {
    const double finish_s = profile.allocate(tasks[order.tasks[i]]);
    if (!tasks[order.tasks[i]].may_be_late) continue;
    // Of tasks that end at the same time the first one counts.
    if (finish_s > order.done_s) order.last = i, order.done_s = finish_s;
  }
}

// The last position at which the task meets the deadline; 0 if there is none.
std::size_t last_position_in_time(std::span<const Task> tasks, double busy_s, double deadline_s,
                                  const ProjectedOrder& order) {
  const Task& task = tasks[order.tasks[order.last]];
  FreeProfile before(busy_s);
  for (std::size_t i = 0; i < order.last; ++i) {
    before.allocate(tasks[order.tasks[i]]);
    // Behind this task it would be late, so its last position is before it.
    if (before.finish(task) > deadline_s) return i;
  }
  return order.last;
}

}  // namespace

FreeProfile::FreeProfile(double busy_s) {
  if (busy_s > 0) steps_.push_back({busy_s, 0});
}

double FreeProfile::finish(const Task& task) const {
  double work = task.work_s;
  double from = 0;
  for (const Step& step : steps_) {
    const double take = std::min(task.width, step.free);
    const double done = take * (step.end_s - from);
    if (take > kNegligible && work <= done) return from + work / take;
    work -= done;
    from = step.end_s;
  }
  return from + work / task.width;
}

double FreeProfile::allocate(const Task& task) {
  const double finish_s = finish(task);
  double from = 0;
  std::size_t i = 0;
  for (; i < steps_.size() && steps_[i].end_s <= finish_s; ++i) {
    steps_[i].free -= std::min(task.width, steps_[i].free);
    from = steps_[i].end_s;
  }
  const auto at = [&](std::size_t k) { return steps_.begin() + static_cast<std::ptrdiff_t>(k); };
  if (finish_s > from) {
    const double free = i < steps_.size() ? steps_[i].free : 1;
    steps_.insert(at(i), {finish_s, free - std::min(task.width, free)});
  }
  // Busy steps at the front are merged into one.
  std::size_t busy = 0;
  while (busy < steps_.size() && steps_[busy].free <= kNegligible) ++busy;
  if (busy > 1) steps_.erase(at(0), at(busy - 1));
  return finish_s;
}

bool surely_in_time(std::span<const Task> tasks, double busy_s, double deadline_s) {
  // While a task waits, the tasks before it use the whole cluster.
  double before_s = busy_s;
  for (const Task& task : tasks) {
    const double end_s = before_s + task.work_s / task.width;
    if (task.may_be_late && end_s > deadline_s * (1 - 1e-9)) return false;
    before_s += task.work_s;
  }
  return true;
}

ProjectedOrder meet_deadline(std::span<const Task> tasks, double busy_s, double deadline_s,
                             int moves_max) {
  ProjectedOrder order;
  order.tasks.resize(tasks.size());
  std::iota(order.tasks.begin(), order.tasks.end(), std::size_t{0});
  for (int move = 0;; ++move) {
    project(tasks, busy_s, order);
    if (order.done_s <= deadline_s || move == moves_max) return order;
    const std::size_t position = last_position_in_time(tasks, busy_s, deadline_s, order);
    // The task is the first one already and is late nevertheless, so no move helps.
    if (position == order.last) return order;
    const auto first = order.tasks.begin();
    std::rotate(first + static_cast<std::ptrdiff_t>(position),
                first + static_cast<std::ptrdiff_t>(order.last),
                first + static_cast<std::ptrdiff_t>(order.last) + 1);
  }
}

}  // namespace es::scheduler
