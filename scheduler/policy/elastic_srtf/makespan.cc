#include "scheduler/policy/elastic_srtf/makespan.h"

#include <algorithm>

namespace es::scheduler {
namespace {

constexpr double kMakespanSlack = 0.03;
constexpr double kGuaranteeSlack = 0.25;  // a projection that is later leads to a guarantee
constexpr int kMovesMax = 4;
// Only the last jobs are projected one by one; the work before them counts as one busy period.
constexpr std::size_t kProjectedMax = 128;

}  // namespace

TimelyOrder order_in_time(const ServiceOrder& order, double now_s) {
  const std::size_t count = order.size();
  const ClusterLoad load = order.load();
  TimelyOrder result{.end = count};
  if (load.widths <= 1) return result;  // no job waits
  std::size_t fixed = first_movable(order);
  if (count > kProjectedMax) fixed = std::max(fixed, count - kProjectedMax);
  const std::vector<QueueEntry> last = order.entries(fixed, count);
  std::vector<Task> tasks;
  double after_s = 0;
  for (const QueueEntry& entry : last) {
    tasks.push_back(order.forecast(entry.slot).task_at(now_s));
    after_s += tasks.back().work_s;
  }
  // Both are rounded differently, so the difference may be slightly negative.
  const double before_s = std::max(0.0, load.backlog_s - after_s);
  const double deadline_s = (1 + kMakespanSlack) * load.horizon_s;
  // One pass, while the projection costs the square of the number of jobs.
  if (surely_in_time(tasks, before_s, deadline_s)) return result;

  const ProjectedOrder projected = meet_deadline(tasks, before_s, deadline_s, kMovesMax);
  result.end = fixed;
  for (const std::size_t i : projected.tasks) result.moved.push_back(last[i]);
  const double latest_s = (1 + kGuaranteeSlack) * load.horizon_s;
  if (projected.done_s > latest_s) {
    result.guaranteed = projected.last;
    const JobForecast& forecast = order.forecast(result.moved[projected.last].slot);
    // With this part of its devices from now on it needs alone / part = latest_s.
    result.guaranteed_part = std::min(1.0, forecast.alone_at(now_s) / latest_s);
  }
  return result;
}

std::size_t first_movable(const ServiceOrder& order) {
  const std::size_t count = order.size();
  if (count == 0) return 0;
  // Jobs of higher priority than the last one must not be overtaken. Of its own priority the first
  // two classes keep their places.
  const QueueEntry last = order.entries(count - 1, count).front();
  return order.count_before(QueueEntry::rank_of(last.priority_rank(), ServiceClass::kAged));
}

}  // namespace es::scheduler
