#include "scheduler/policy/elastic_srtf/full_scan_order.h"

#include <algorithm>
#include <utility>

#include "scheduler/policy/elastic_srtf/backlog.h"

namespace es::scheduler {

ClusterLoad cluster_load(std::vector<GroupLoad> groups, double longest_s) {
  ClusterLoad load;
  for (const GroupLoad& group : groups) load.backlog_s = std::max(load.backlog_s, group.backlog_s);
  load.horizon_s = std::max(longest_s, load.backlog_s);
  load.groups = std::move(groups);
  return load;
}

void FullScanOrder::arrange(const ClusterTable& table) {
  add_up(table);
  // Before any job is ranked, because the class of a job depends on the horizon of all jobs.
  rules_.critical_step = fine_step(kCriticalPart * load_.horizon_s);
  begin_ranking(table);
  double aged_wait_s = kNeverS;
  std::int64_t next_step = -1;  // largest of the waiting narrow jobs that are not critical
  entries_.clear();
  for (const JobRow& row : table.rows()) {
    if (!row.present) continue;
    const Ranking ranking = rank(forecasts_[row.slot], table);
    entries_.push_back(ranking.entry);
    load_.again_s = std::min(load_.again_s, ranking.ages_s);
    aged_wait_s = std::min(aged_wait_s, ranking.aged_wait_s);
    const bool is_critical = ranking.entry.service_class() == ServiceClass::kCritical;
    if (ranking.may_be_critical && !ranking.entry.holds && !is_critical)
      next_step = std::max(next_step, ranking.alone_step);
    // A job that waits and does not age soon: asking again after kAgesSoon finds it before it can
    // age.
    if (ranking.waits) load_.again_s = std::min(load_.again_s, table.now_s() + kAgesSoon);
  }
  if (aged_wait_s < kNeverS)
    load_.again_s = std::min(load_.again_s, aged_again_s(aged_wait_s, table.now_s()));
  if (next_step >= 0)
    load_.again_s =
        std::min(load_.again_s, critical_at_s(next_step, load_.horizon_s, table.now_s()));
  std::sort(entries_.begin(), entries_.end());
}

// Writes the forecasts and the sums over them.
void FullScanOrder::add_up(const ClusterTable& table) {
  forecasts_.assign(table.rows().size(), {});
  Backlogs backlogs;
  double longest_s = 0;
  for (const JobRow& row : table.rows()) {
    if (!row.present) continue;
    const JobForecast& forecast = forecasts_[row.slot] = forecast_of(table, row);
    backlogs.add(forecast.types, Backlog::part_of(forecast, table.now_s()), 1);
    if (forecast.is_finite()) longest_s = std::max(longest_s, forecast.alone_at(table.now_s()));
  }
  load_ = cluster_load(backlogs.loads_at(table.now_s(), table.total()), longest_s);
}

std::vector<QueueEntry> FullScanOrder::entries(std::size_t from, std::size_t to) const {
  const auto at = [&](std::size_t i) { return entries_.begin() + static_cast<std::ptrdiff_t>(i); };
  return {at(from), at(to)};
}

std::size_t FullScanOrder::count_before(std::int64_t rank) const {
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [&](const QueueEntry& e) { return e.rank < rank; }));
}

void FullScanOrder::visit_last(const std::function<bool(const QueueEntry&)>& visit) const {
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry)
    if (entry->is_preemptible() && !visit(*entry)) return;
}

std::vector<QueueEntry> FullScanOrder::fixed() const {
  std::vector<QueueEntry> fixed;
  for (const QueueEntry& entry : entries_)
    if (entry.pinned || entry.keeps_minimum) fixed.push_back(entry);
  return fixed;
}

}  // namespace es::scheduler
