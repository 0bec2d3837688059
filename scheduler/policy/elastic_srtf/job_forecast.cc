#include "scheduler/policy/elastic_srtf/job_forecast.h"

#include <algorithm>
#include <bit>

#include "scheduler/policy/common/queue_entry.h"

namespace es::scheduler {
namespace {

// Part of the cluster. With 0 the mean makespan is 3.8 % longer, with 0.5 the mean completion time
// 1 %.
constexpr double kNarrow = 0.25;
// The other 16 bits are the sign, the exponent and the 4 highest bits of the mantissa: 16 steps for
// each power of two.
constexpr int kStepBits = 48;  // bits of a double below those that give its step
constexpr int kFineStepBits = 43;
// As large as a step of the keys. Without it there are 12 % more rescales and nothing else changes.
constexpr double kHoldBonus = 0.06;

// What the key of the ordinary class adds to the remaining time. A key that depends on what a job
// holds must never give a job that has lost its devices an earlier place. Otherwise two decisions
// would undo each other.
double key_seconds(const JobRow& row) {
  if (row.held_total > 0) return -row.pause_s;
  return row.started ? 0 : row.pause_s;
}

}  // namespace

std::int64_t log_step(double x) {
  // The bits of numbers from 0 on ascend with the number.
  return std::bit_cast<std::int64_t>(std::max(x, 0.0)) >> kStepBits;
}

double log_step_begin(std::int64_t step) {
  return std::bit_cast<double>(step << kStepBits);
}

std::int64_t fine_step(double x) {
  return std::bit_cast<std::int64_t>(std::max(x, 0.0)) >> kFineStepBits;
}

double fine_step_begin(std::int64_t step) {
  return std::bit_cast<double>(step << kFineStepBits);
}

double JobForecast::alone_at(double now_s) const {
  if (!known) return ClusterTable::kUnknownSteps;
  const double ran_s = std::max(0.0, now_s - from_s);
  return std::clamp(alone_s - ran_s * alone_falls, 0.0, ClusterTable::kUnknownSteps);
}

double JobForecast::done_at_s() const {
  return alone_falls > 0 ? from_s + alone_s / alone_falls : kNeverS;
}

double JobForecast::fair_s(double jobs) const {
  return pause_s + std::max(fair_alone_s, fair_shared_s * std::max(1.0, jobs));
}

double JobForecast::ordinary_s(double now_s) const {
  const double pause_left_s = std::max(0.0, paused_until_s - now_s);
  return alone_at(now_s) + pause_left_s + key_s;
}

Task JobForecast::task_at(double now_s) const {
  if (!known) return {};
  return {width, alone_at(now_s) * width, !is_narrow()};
}

double JobForecast::crowded_work_s(double now_s) const {
  return alone_at(now_s) * width * crowded_part;
}

bool JobForecast::is_narrow() const {
  return width * share <= kNarrow;
}

double JobForecast::hold_factor() const {
  return holds ? 1 + kHoldBonus : 1;
}

double JobForecast::critical_s(double now_s) const {
  return alone_at(now_s) * hold_factor() + pause_s;
}

JobForecast forecast_of(const ClusterTable& table, const JobRow& row) {
  JobForecast forecast;
  forecast.number = row.number;
  forecast.slot = static_cast<std::uint32_t>(row.slot);
  forecast.known = row.best_speed > 0 && !table.is_unknown(row);
  forecast.holds = row.held_total > 0;
  forecast.pinned = row.pinned;
  forecast.keeps_minimum = keeps_minimum(row);
  forecast.at_optimum =
      row.held_total >= row.min_devices && row.held_speed >= row.best_speed * (1 - 1e-9);
  forecast.priority_rank = -std::int64_t{row.priority};
  forecast.submit_s = row.submit_s;
  // A job without devices is not in a pause, whatever its last change was.
  // A job that has lost a part of its minimum stands still for another reason.
  const bool runs = row.held_total >= row.min_devices;
  forecast.paused_until_s = runs ? row.paused_until_s : -kNeverS;
  forecast.pause_s = row.pause_s;
  forecast.job_seconds_at_submit = row.job_seconds_at_submit;
  forecast.deadline_s = row.deadline_s;
  forecast.key_s = key_seconds(row);
  double devices = 0;
  for (std::size_t t = 0; t < table.types(); ++t) {
    if (table.capabilities(row.slot)[t] <= 0 || table.total()[t] == 0) continue;
    forecast.types |= type_bit(t);
    devices += table.total()[t];
  }
  forecast.share = devices / std::max(1U, total(table.total()));
  if (!forecast.known) return forecast;
  forecast.alone_s = row.remaining_steps / row.best_speed;
  // A measured speed may exceed the best one of the model. No more than one second is credited for
  // a second.
  forecast.alone_falls = std::min(1.0, row.steps_per_s / row.best_speed);
  forecast.from_s = row.progress_from_s;
  forecast.width = std::min(1.0, row.best_capability / row.cluster_speed);
  if (row.best_capability > 0)
    forecast.crowded_part = std::min(1.0, row.best_speed / row.best_capability / kEfficient);
  forecast.fair_alone_s = row.total_steps / row.best_speed;
  forecast.fair_shared_s = row.total_steps / row.cluster_speed;
  return forecast;
}

}  // namespace es::scheduler
