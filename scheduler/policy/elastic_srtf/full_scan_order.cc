#include "scheduler/policy/elastic_srtf/full_scan_order.h"

#include <algorithm>

#include "scheduler/policy/elastic_srtf/backlog.h"

namespace es::scheduler {

void FullScanOrder::arrange(const ClusterTable& table) {
  add_up(table);
  // Before any job is ranked, because the class of a job depends on the horizon of all jobs.
  rules_.critical_step = log_step(kCriticalPart * load_.horizon_s);
  entries_.clear();
  for (const JobRow& row : table.rows()) {
    if (!row.present) continue;
    const Ranking ranking = rank_job(forecasts_[row.slot], table, rules_);
    entries_.push_back(ranking.entry);
    load_.again_s = std::min(load_.again_s, ranking.ages_s);
    // A job that waits and does not age soon: asking again after kAgesSoon finds it before it can
    // age.
    if (ranking.waits) load_.again_s = std::min(load_.again_s, table.now_s() + kAgesSoon);
  }
  std::sort(entries_.begin(), entries_.end());
}

// Writes the forecasts and the sums over them.
void FullScanOrder::add_up(const ClusterTable& table) {
  forecasts_.assign(table.rows().size(), {});
  Backlog backlog;
  double longest_s = 0;
  for (const JobRow& row : table.rows()) {
    if (!row.present) continue;
    const JobForecast& forecast = forecasts_[row.slot] = forecast_of(table, row);
    backlog.add(Backlog::part_of(forecast, table.now_s()), 1);
    if (forecast.is_finite()) longest_s = std::max(longest_s, forecast.alone_at(table.now_s()));
  }
  load_ = {};
  load_.backlog_s = backlog.seconds_at(table.now_s());
  load_.horizon_s = std::max(longest_s, load_.backlog_s);
  load_.widths = backlog.widths();
}

std::vector<QueueEntry> FullScanOrder::entries(std::size_t from, std::size_t to) const {
  const auto at = [&](std::size_t i) { return entries_.begin() + static_cast<std::ptrdiff_t>(i); };
  return {at(from), at(to)};
}

std::size_t FullScanOrder::count_before(std::int64_t rank) const {
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [&](const QueueEntry& e) { return e.rank < rank; }));
}

std::vector<QueueEntry> FullScanOrder::fixed() const {
  std::vector<QueueEntry> fixed;
  for (const QueueEntry& entry : entries_)
    if (entry.pinned || entry.keeps_minimum) fixed.push_back(entry);
  return fixed;
}

}  // namespace es::scheduler
