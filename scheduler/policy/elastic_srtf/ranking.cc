#include "scheduler/policy/elastic_srtf/ranking.h"

#include <algorithm>

namespace es::scheduler {
namespace {

constexpr double kDeadlineMargin = 0.25;                      // part of the time that the job needs
constexpr double kRhoStep = 0.04;                             // part by which rho grows in a step
constexpr std::int64_t kUnknownStep = std::int64_t{1} << 20;  // after all steps

// One call of rank_job().
class Ranker {
 public:
  Ranker(const JobForecast& forecast, const ClusterTable& table, const RankingRules& rules)
      : forecast_(forecast),
        table_(table),
        row_(table.rows()[forecast.slot]),
        rules_(rules),
        now_s_(table.now_s()) {}

  Ranking run() {
    describe();
    forecast_.known ? rank_known() : rank_unknown();
    return result_;
  }

 private:
  void describe() {
    QueueEntry& entry = result_.entry;
    entry.number = forecast_.number;
    entry.slot = forecast_.slot;
    entry.pinned = forecast_.pinned;
    entry.keeps_minimum = forecast_.keeps_minimum;
    entry.holds = forecast_.holds;
    entry.at_optimum = forecast_.at_optimum;
    entry.paused = now_s_ < forecast_.paused_until_s;
  }

  void assign(ServiceClass service_class, std::int64_t key) {
    result_.entry.rank = QueueEntry::rank_of(forecast_.priority_rank, service_class);
    result_.entry.key = key;
  }

  void rank_known() {
    const double alone_s = forecast_.alone_at(now_s_);
    result_.alone_step = fine_step(forecast_.critical_s(now_s_));
    // A deadline that has passed cannot be met any more, so it gives no precedence.
    if (now_s_ < forecast_.deadline_s && deadline_slack_s(forecast_, now_s_) <= 0)
      return assign(ServiceClass::kUrgent, sortable_bits(forecast_.deadline_s));
    const double fair_s = forecast_.fair_s(mean_jobs(forecast_, table_));
    if (assign_aged(forecast_.age_at(now_s_) + alone_s, fair_s)) return;
    result_.may_be_critical = forecast_.is_narrow() && forecast_.is_finite();
    if (result_.may_be_critical && result_.alone_step >= rules_.critical_step)
      return assign(ServiceClass::kCritical, -result_.alone_step);
    const double seconds = std::max(0.0, forecast_.ordinary_s(now_s_));
    assign(ServiceClass::kOrdinary, log_step(seconds * forecast_.part_of_cluster()));
  }

  // Jobs of unknown length come after all others, the least attained service first. Such a job
  // ages by the steps that it has done. It is not part of projections.
  void rank_unknown() {
    result_.alone_step = fine_step(ClusterTable::kUnknownSteps);
    if (row_.best_speed > 0) {
      const double fair_s = row_.pause_s + table_.done(row_) / table_.fair_speed(row_);
      if (assign_aged(forecast_.age_at(now_s_), fair_s)) return;
    }
    assign(ServiceClass::kOrdinary, kUnknownStep + log_step(table_.attained(row_)));
  }

  // Assigns the job to its class if it has aged. Otherwise notes when it may.
  bool assign_aged(double end_s, double fair_s) {
    const double late_s = end_s * forecast_.hold_factor();
    // At least 1 s, so that very short jobs do not age at once.
    const double bound_s = std::max(fair_s, 1.0);
    result_.late_s = late_s;
    result_.bound_s = bound_s;
    if (late_s > rules_.rho_max * bound_s) {
      // Negative, because the largest rho is served first and entries are sorted in ascending
      // order.
      assign(ServiceClass::kAged, -log_step(late_s / bound_s));
      if (waits_elastically()) result_.aged_wait_s = forecast_.alone_s - forecast_.submit_s;
      return true;
    }
    if (waits_elastically()) {
      const double later_s = (rules_.rho_max * bound_s - late_s) * (fair_s / bound_s);
      result_.waits = later_s > kAgesSoon;
      // At least one second from now, so that the policy does not ask again in a loop at one time.
      if (!result_.waits) result_.ages_s = now_s_ + std::max(1.0, later_s);
    }
    return false;
  }

  bool waits_elastically() const { return !forecast_.holds && !forecast_.pinned; }

  const JobForecast& forecast_;
  const ClusterTable& table_;
  const JobRow& row_;
  const RankingRules& rules_;
  const double now_s_;
  Ranking result_;
};

}  // namespace

Ranking rank_job(const JobForecast& forecast, const ClusterTable& table,
                 const RankingRules& rules) {
  return Ranker(forecast, table, rules).run();
}

double critical_at_s(std::int64_t alone_step, double horizon_s, double now_s) {
  const double falls_s = horizon_s - fine_step_begin(alone_step + 1) / kCriticalPart;
  return now_s + std::max(1.0, falls_s);
}

double aged_again_s(double aged_wait_s, double now_s) {
  // At least one second from now, so that the policy does not ask again in a loop at one time.
  return now_s + std::max(1.0, kRhoStep * (now_s + aged_wait_s));
}

double mean_jobs(const JobForecast& forecast, const ClusterTable& table) {
  const double age_s = forecast.age_at(table.now_s());
  return age_s > 0 ? (table.job_seconds() - forecast.job_seconds_at_submit) / age_s : 1;
}

double deadline_slack_s(const JobForecast& forecast, double now_s) {
  const double needs_s = forecast.alone_at(now_s) * (1 + kDeadlineMargin) + forecast.pause_s;
  return forecast.deadline_s - (now_s + needs_s);
}

}  // namespace es::scheduler
