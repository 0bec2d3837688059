#include "scheduler/policy/elastic_srtf/fair_deadlines.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace es::scheduler {
namespace {

// One call of fair_deadlines().
class Search {
 public:
  Search(std::vector<FairTask> tasks, double now_s) : tasks_(std::move(tasks)), now_s_(now_s) {
    order_.resize(tasks_.size());
    for (std::uint32_t i = 0; i < order_.size(); ++i) order_[i].task = i;
  }

  // Of all stretches from `least` on with which all are in time the least one. A set of tasks that
  // is late needs one of its deadlines to be as late as all of its work takes, which is a bound
  // from below, and with that bound another set is late, or none. A few rounds find the last one.
  double least_stretch(double least) {
    for (;;) {
      const double bound = bound_by_late(least);
      if (bound <= least) return least;
      least = bound;
    }
  }

  std::vector<FairDeadline> deadlines(double stretch) {
    sort_by_deadline(stretch);
    std::vector<FairDeadline> result(tasks_.size());
    double done_s = now_s_;
    for (const Due& due : order_) {
      const FairTask& task = tasks_[due.task];
      done_s += task.work_s;
      result[due.task] = {due.by_s, due.by_s - now_s_ - task.alone_s, due.by_s - done_s};
    }
    // A job that waits delays all with later deadlines.
    double least_s = std::numeric_limits<double>::infinity();
    for (std::size_t k = order_.size(); k-- > 0;) {
      FairDeadline& of = result[order_[k].task];
      least_s = std::min(least_s, of.slack_s);
      of.slack_s = std::min(least_s, of.own_slack_s);
    }
    return result;
  }

 private:
  struct Due {
    double by_s = 0;
    std::uint32_t task = 0;
  };

  // A bound from below of the stretch with which those are in time that are late with this one; 0
  // if none is.
  double bound_by_late(double stretch) {
    sort_by_deadline(stretch);
    double bound = 0, work_s = 0, latest = 0, late_work_s = 0;
    std::size_t late = 0;  // the first tasks of the order, whose work is late by most
    for (std::size_t k = 0; k < order_.size(); ++k) {
      const FairTask& task = tasks_[order_[k].task];
      work_s += task.work_s;
      if (now_s_ + task.alone_s > order_[k].by_s)
        bound = std::max(bound, stretch_for(task, task.alone_s));
      const double late_part = (now_s_ + work_s - order_[k].by_s) / task.fair_s;
      if (late_part <= latest) continue;
      latest = late_part;
      late = k + 1;
      late_work_s = work_s;
    }
    if (late == 0) return bound;
    double earliest = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < late; ++k)
      earliest = std::min(earliest, stretch_for(tasks_[order_[k].task], late_work_s));
    return std::max(bound, earliest);
  }

  // With which the deadline of the task is after `seconds`.
  double stretch_for(const FairTask& task, double seconds) const {
    return (now_s_ + seconds - task.submit_s) / task.fair_s;
  }

  void sort_by_deadline(double stretch) {
    for (Due& due : order_)
      due.by_s = tasks_[due.task].submit_s + stretch * tasks_[due.task].fair_s;
    std::ranges::sort(order_, [&](const Due& a, const Due& b) {
      if (a.by_s != b.by_s) return a.by_s < b.by_s;
      return tasks_[a.task].number < tasks_[b.task].number;
    });
  }

  const std::vector<FairTask> tasks_;
  const double now_s_;
  std::vector<Due> order_;
};

}  // namespace

std::vector<FairDeadline> fair_deadlines(std::vector<FairTask> tasks, double now_s,
                                         double stretch_min) {
  Search search(std::move(tasks), now_s);
  return search.deadlines(search.least_stretch(stretch_min));
}

}  // namespace es::scheduler
