#include "scheduler/policy/elastic_srtf/fair_deadlines.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace es::scheduler {
namespace {

constexpr double kPrecision = 0.005;  // relative
// No job is this late; it ends the search if lengths are not finite.
constexpr double kStretchMax = 1e9;

// One call of fair_deadlines().
class Search {
 public:
  Search(std::vector<FairTask> tasks, double now_s) : tasks_(std::move(tasks)), now_s_(now_s) {
    order_.resize(tasks_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }

  double least_stretch(double least) {
    double low = least, high = least;
    while (high < kStretchMax && !is_feasible(high)) low = std::exchange(high, 2 * high);
    while (high - low > kPrecision * low) {
      const double middle = (low + high) / 2;
      (is_feasible(middle) ? high : low) = middle;
    }
    return high;
  }

  std::vector<FairDeadline> deadlines(double stretch) {
    sort_by_deadline(stretch);
    std::vector<FairDeadline> result(tasks_.size());
    double done_s = now_s_;
    for (const std::size_t i : order_) {
      done_s += tasks_[i].work_s;
      const double by_s = deadline_s(i, stretch);
      result[i] = {by_s, by_s - now_s_ - tasks_[i].alone_s, by_s - done_s};
    }
    // A job that waits delays all with later deadlines.
    double least_s = std::numeric_limits<double>::infinity();
    for (std::size_t k = order_.size(); k-- > 0;) {
      FairDeadline& of = result[order_[k]];
      least_s = std::min(least_s, of.slack_s);
      of.slack_s = std::min(least_s, of.own_slack_s);
    }
    return result;
  }

 private:
  double deadline_s(std::size_t i, double stretch) const {
    return tasks_[i].submit_s + stretch * tasks_[i].fair_s;
  }

  void sort_by_deadline(double stretch) {
    std::ranges::sort(order_, {}, [&](std::size_t i) {
      return std::tuple(deadline_s(i, stretch), tasks_[i].number);
    });
  }

  bool is_feasible(double stretch) {
    sort_by_deadline(stretch);
    double work_s = 0;
    return std::ranges::all_of(order_, [&](std::size_t i) {
      work_s += tasks_[i].work_s;
      return now_s_ + std::max(work_s, tasks_[i].alone_s) <= deadline_s(i, stretch);
    });
  }

  const std::vector<FairTask> tasks_;
  const double now_s_;
  std::vector<std::size_t> order_;
};

}  // namespace

std::vector<FairDeadline> fair_deadlines(std::vector<FairTask> tasks, double now_s,
                                         double stretch_min) {
  Search search(std::move(tasks), now_s);
  return search.deadlines(search.least_stretch(stretch_min));
}

}  // namespace es::scheduler
