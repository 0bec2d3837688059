#include "scheduler/policy/elastic_srtf/fair_order.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "scheduler/policy/common/choice.h"
#include "scheduler/policy/common/speed.h"
#include "scheduler/policy/elastic_srtf/fair_projection.h"

namespace es::scheduler {
namespace {

// What changes if a value moves is in docs/measurements/scheduling.md, "Constants of the fair end".
// With 1 the mean completion time is 8 % longer, with 3 the worst rho up to 17 % larger.
constexpr double kShares = 1.5;
// With 1 the mean completion time is 2 % shorter and the worst rho 1 to 2 % larger.
constexpr double kMargin = 0.9;

// The length of a turn is the largest of the first three; the first one is at most the last one. A
// late job that waits is looked at again after kTurnS; without it the worst rho is up to 1.5 times.
constexpr double kTurnS = 120;
// With 0 the SC '23 trace at 60 s a rescale takes turns without end.
constexpr double kTurnPauses = 10;
// Of the time that the job takes with a fair share. With 0 there are 9 % more rescales.
constexpr double kTurnPart = 0.02;
// Of the same. Without it a wide job waits for a stream of jobs that are shorter than kTurnS.
constexpr double kTurnPartMax = 0.25;

// Jobs of 600 s and pauses of 10 s are a crowd in which turns lose, jobs of 500 s and pauses of 1 s
// one in which they win: without them the worst rho of jobs of one device is 1.5 in place of 1.04.
constexpr double kDearPauses = 200;
// Of the time that the job takes with a fair share. With 0 one load takes three times as long.
constexpr double kDearTurnPart = 0.2;
// Jobs at their last moment come before all that have time, whose deadlines are within 30 years.
constexpr double kBeforeAllS = 1e9;

constexpr double kNoBound = 1e9;

// Of a job whose communication is known: the speed with its best devices if they did not
// communicate.
double ideal_speed(const ClusterTable& table, const JobRow& row) {
  const auto speeds = table.capabilities(row.slot);
  if (row.mix_types) {
    Counts fastest = table.total();
    if (row.max_devices < row.max_p) keep_fastest(row.max_devices, fastest, speeds);
    return mixed_speed(row.max_p, fastest, speeds);
  }
  double best = 0;
  for (std::size_t t = 0; t < speeds.size(); ++t) {
    const std::uint32_t n = std::min(table.total()[t], row.max_devices);
    if (n > 0 && speeds[t] > 0) best = std::max(best, one_type_speed(row.max_p, n, speeds[t]));
  }
  return best;
}

// Until a job makes steps with its best devices.
double pause_ahead_s(const ClusterTable& table, const JobForecast& forecast) {
  const JobRow& row = table.rows()[forecast.slot];
  // Another job leaves its devices before one that has none can start.
  if (!forecast.holds) return std::max(row.rescale_s, row.suspend_s) + row.pause_s;
  return std::max(0.0, forecast.paused_until_s - table.now_s());
}

}  // namespace

void FairOrder::begin_ranking(const ClusterTable& table) {
  level_ = kMargin * rules_.rho_max;
  jobs_.assign(table.rows().size(), {});
  project(table);
  dear_ = are_turns_dear(table);
  if (dear_) find_deadlines(table);
  find_next_change(table);
}

void FairOrder::project(const ClusterTable& table) {
  std::vector<std::size_t> slots;
  std::vector<SharingTask> tasks;
  for (const JobForecast& forecast : forecasts_) {
    if (!forecast.is_finite()) continue;
    const JobRow& row = table.rows()[forecast.slot];
    const double width = std::clamp(forecast.width * forecast.share, 1e-9, 1.0);
    slots.push_back(row.slot);
    tasks.push_back({forecast.alone_at(table.now_s()), width});
  }
  const std::vector<SharedEnd> ends = project_shared_ends(tasks, kShares);
  for (std::size_t i = 0; i < slots.size(); ++i)
    jobs_[slots[i]] = fair_job(table, forecasts_[slots[i]], ends[i].ahead_s, ends[i].job_s);
}

FairOrder::FairJob FairOrder::fair_job(const ClusterTable& table, const JobForecast& forecast,
                                       double ahead_s, double job_s) const {
  const JobRow& row = table.rows()[forecast.slot];
  const double age_s = forecast.age_at(table.now_s());
  const double life_s = age_s + ahead_s;
  const double lived_job_s = table.job_seconds() - forecast.job_seconds_at_submit + job_s;
  const double jobs = life_s > 0 ? std::max(1.0, lived_job_s / life_s) : 1;
  const bool is_known = !table.sync(row.slot).empty();
  const double alone_s =
      is_known ? row.total_steps / ideal_speed(table, row) : forecast.fair_alone_s;
  // At least 1 s, so that very short jobs are not late at once.
  const double fair_s =
      std::max(1.0, row.start_s + std::max(alone_s, forecast.fair_shared_s * jobs));
  const double change_s = std::max(row.rescale_s, row.suspend_s);
  // Another job leaves its devices before this one can start.
  if (!forecast.holds) return {(life_s + change_s + row.pause_s) / fair_s, fair_s};
  const double pause_s = std::max(0.0, forecast.paused_until_s - table.now_s());
  const double turn_s = std::max(
      {std::min(kTurnS, kTurnPartMax * fair_s), kTurnPauses * change_s, kTurnPart * fair_s});
  return {(life_s + pause_s + turn_s) / fair_s, fair_s};
}

bool FairOrder::are_turns_dear(const ClusterTable& table) const {
  if (table.jobs() <= total(table.total())) return false;
  double alone_s = 0, pauses_s = 0;
  for (const JobForecast& forecast : forecasts_) {
    if (!forecast.is_finite()) continue;
    const JobRow& row = table.rows()[forecast.slot];
    alone_s += forecast.fair_alone_s;
    pauses_s += std::max(row.rescale_s, row.suspend_s);
  }
  return alone_s < kDearPauses * pauses_s;
}

void FairOrder::find_deadlines(const ClusterTable& table) {
  std::vector<std::size_t> slots;
  std::vector<FairTask> tasks;
  for (const JobForecast& forecast : forecasts_) {
    // A pinned job is served in any case, and no other one waits for it.
    if (!forecast.is_finite() || forecast.pinned) continue;
    const double alone_s = forecast.alone_at(table.now_s());
    slots.push_back(forecast.slot);
    tasks.push_back({.number = forecast.number,
                     .submit_s = forecast.submit_s,
                     .fair_s = jobs_[forecast.slot].fair_s,
                     .alone_s = alone_s + pause_ahead_s(table, forecast),
                     .work_s = alone_s * std::clamp(forecast.part_of_cluster(), 1e-9, 1.0)});
  }
  const auto deadlines = fair_deadlines(std::move(tasks), table.now_s(), rules_.rho_max);
  for (std::size_t i = 0; i < slots.size(); ++i)
    set_place(table.rows()[slots[i]], forecasts_[slots[i]], deadlines[i]);
}

void FairOrder::set_place(const JobRow& row, const JobForecast& forecast,
                          const FairDeadline& deadline) {
  FairJob& job = jobs_[row.slot];
  const double pauses_s = kPausesToGain * std::max(row.rescale_s, row.suspend_s);
  const double turn_s = std::max(kDearTurnPart * job.fair_s, pauses_s);
  const bool is_last_moment = deadline.own_slack_s <= (forecast.holds ? turn_s : 0);
  job.key_s =
      deadline.deadline_s + (forecast.holds ? 0 : turn_s) - (is_last_moment ? kBeforeAllS : 0);
  job.waits_s = deadline.slack_s - (forecast.holds ? turn_s : pauses_s);
}

// When a job that waits may be later than one that holds devices.
void FairOrder::find_next_change(const ClusterTable& table) {
  double lowest = kNeverS;  // of the jobs that hold devices
  for (const JobForecast& forecast : forecasts_)
    if (forecast.is_finite() && forecast.holds && !forecast.pinned)
      lowest = std::min(lowest, jobs_[forecast.slot].rho);
  const double level = std::max(level_, lowest);
  for (const JobForecast& forecast : forecasts_) {
    if (!forecast.is_finite() || forecast.holds || forecast.pinned) continue;
    const FairJob& job = jobs_[forecast.slot];
    const double turn_later_s = job.rho <= level ? (level - job.rho) * job.fair_s : kTurnS;
    const double dear_later_s = job.waits_s > 0 ? job.waits_s : kTurnS;
    const double later_s = dear_ ? dear_later_s : turn_later_s;
    load_.again_s = std::min(load_.again_s, table.now_s() + std::max(1.0, later_s));
  }
}

Ranking FairOrder::rank(const JobForecast& forecast, const ClusterTable& table) const {
  RankingRules rules = rules_;
  // A job of known length does not age by the mean number of jobs until now.
  rules.rho_max = forecast.is_finite() ? kNoBound : level_;
  Ranking ranking = rank_job(forecast, table, rules);
  if (ranking.entry.service_class() == ServiceClass::kUrgent) return ranking;
  if (dear_) return rank_by_deadline(forecast, std::move(ranking));
  const double rho =
      forecast.is_finite() ? jobs_[forecast.slot].rho : ranking.late_s / ranking.bound_s;
  if (rho <= level_) return ranking;
  ranking.entry.rank = QueueEntry::rank_of(forecast.priority_rank, ServiceClass::kAged);
  ranking.entry.key = sortable_bits(-rho);
  ranking.may_be_critical = false;
  return ranking;
}

Ranking FairOrder::rank_by_deadline(const JobForecast& forecast, Ranking ranking) const {
  FairJob job = jobs_[forecast.slot];
  // One of unknown length should have ended before it became late.
  if (!forecast.is_finite()) {
    job.waits_s = rules_.rho_max * ranking.bound_s - ranking.late_s;
    job.key_s = forecast.submit_s + rules_.rho_max * ranking.bound_s;
  }
  if (forecast.pinned || job.waits_s > 0) return ranking;
  ranking.entry.rank = QueueEntry::rank_of(forecast.priority_rank, ServiceClass::kAged);
  ranking.entry.key = sortable_bits(job.key_s);
  ranking.may_be_critical = false;
  return ranking;
}

}  // namespace es::scheduler
