#include "scheduler/policy/elastic_srtf/index_bounds.h"

#include <algorithm>

#include "scheduler/policy/common/choice.h"

namespace es::scheduler {
namespace {

constexpr double kRounding = 1e-9;  // relative error of values that are computed later

// Returns a time slightly before `dt` seconds have passed, so that rounding cannot make the job be
// looked at too late.
double shortly_before(double now_s, double dt) {
  return now_s + dt - 1e-6 * (1 + dt);
}

// The time when an amount of `seconds` has fallen by `drop`. First it falls with the pause of the
// job, then as alone_at() does.
double when_fallen(const JobForecast& forecast, double now_s, double pause_left_s, double seconds,
                   double drop) {
  if (drop <= pause_left_s) return shortly_before(now_s, drop);
  if (forecast.alone_falls <= 0) return kNeverS;
  const double steady_s = std::max(pause_left_s, forecast.from_s - now_s);
  const double error = 1e-12 * seconds / forecast.alone_falls;
  return shortly_before(now_s, steady_s + (drop - pause_left_s) / forecast.alone_falls - error);
}

// One call of validity_of().
class Validator {
 public:
  Validator(const Ranking& ranking, const JobForecast& forecast, const ClusterTable& table,
            const RankingRules& rules)
      : ranking_(ranking), forecast_(forecast), table_(table), rules_(rules) {}

  Validity run() {
    if (ranking_.entry.paused) until(forecast_.paused_until_s);
    // The place of such a job depends on its attained service, which grows all the time.
    if (!forecast_.known) {
      look_always();
      return result_;
    }
    // Until from_s the remaining time does not fall; the part in the backlog changes its form
    // there.
    if (now_s_ <= forecast_.from_s) until(forecast_.from_s);
    if (const double done_s = forecast_.done_at_s(); now_s_ < done_s) until(done_s);
    bound_class();
    return result_;
  }

 private:
  void until(double time_s) { result_.until_s = std::min(result_.until_s, time_s); }
  // Makes every decision look at the job.
  void look_always() { result_.until_s = now_s_; }

  void bound_class() {
    const ServiceClass service_class = ranking_.entry.service_class();
    // A job whose deadline is in danger may leave the class at any time, as its slack depends on
    // its progress.
    if (service_class == ServiceClass::kUrgent) return look_always();
    if (now_s_ < forecast_.deadline_s && forecast_.deadline_s < kNeverS)
      until(shortly_before(now_s_, deadline_slack_s(forecast_, now_s_)));
    if (service_class == ServiceClass::kAged) return bound_aged();
    bound_young();
    service_class == ServiceClass::kCritical ? bound_critical() : bound_ordinary();
  }

  void bound_critical() {
    const double alone_s = forecast_.alone_at(now_s_);
    // The job keeps its key until its remaining time falls below the begin of its step.
    const double over_s = forecast_.critical_s(now_s_) - fine_step_begin(ranking_.alone_step);
    const double drop_s = over_s / forecast_.hold_factor();
    until(when_fallen(forecast_, now_s_, 0, alone_s, drop_s));
  }

  void bound_ordinary() {
    const double seconds = forecast_.ordinary_s(now_s_);
    // The key is on the lowest step already, and it only falls.
    if (seconds <= 0) return;
    const double pause_left_s = std::max(0.0, forecast_.paused_until_s - now_s_);
    const double drop_s =
        std::max(0.0, seconds - log_step_begin(ranking_.entry.key) / forecast_.part_of_cluster());
    until(when_fallen(forecast_, now_s_, pause_left_s, seconds, drop_s));
  }

  // bound_rho() rests on two bounds. The number of jobs that share the cluster with the job is its
  // job-seconds divided by its age: job-seconds only grow, so the lowest value that is possible at
  // a later time is the present job-seconds divided by the age then. The time by which the job
  // would be late grows by at most one second per second (times hold_factor()), and never falls.

  // Finds a time until which late + ahead_s surely stays below rho * bound.
  void bound_rho(double rho, double ahead_s) {
    const double factor = forecast_.hold_factor();
    double dt = std::max(0.0, rho * ranking_.bound_s - ranking_.late_s - ahead_s) / factor;
    // The bound itself depends on dt, so a dt is tried and halved until it holds. If ten attempts
    // do not suffice, every decision looks at the job.
    for (int i = 0; i < 10; ++i, dt /= 2) {
      const double jobs = age_s_ + dt > 0 ? job_seconds_ / (age_s_ + dt) : 1;
      const double bound_s = std::max(1.0, forecast_.fair_s(jobs));
      if (ranking_.late_s + dt * factor + ahead_s <= rho * bound_s * (1 - kRounding))
        return until(now_s_ + dt);
    }
    look_always();
  }

  void bound_young() {
    // It may age soon, and the time of that is part of every answer.
    if (ranking_.ages_s < kNeverS) return look_always();
    bound_rho(rules_.rho_max, ranking_.waits ? kAgesSoon : 0);
  }

  void bound_aged() {
    const double rho = ranking_.late_s / ranking_.bound_s;
    const std::int64_t step = log_step(rho);
    // The key is valid between two steps, the class above rho_max. Both limits apply.
    const double low = std::max(log_step_begin(step), rules_.rho_max);
    bound_rho(log_step_begin(step + 1), 0);
    if (forecast_.fair_shared_s <= 0) return;
    const double sharing =
        (ranking_.late_s / low * (1 - kRounding) - forecast_.pause_s) / forecast_.fair_shared_s;
    // fair_s() counts at least one job, so a smaller number cannot be expressed as job-seconds.
    if (sharing < 1) return look_always();
    result_.until_job_seconds = forecast_.job_seconds_at_submit + sharing * age_s_;
    if (table_.job_seconds() > result_.until_job_seconds) look_always();
  }

  const Ranking& ranking_;
  const JobForecast& forecast_;
  const ClusterTable& table_;
  const RankingRules& rules_;
  const double now_s_ = table_.now_s();
  const double age_s_ = forecast_.age_at(now_s_);
  const double job_seconds_ = table_.job_seconds() - forecast_.job_seconds_at_submit;
  Validity result_;
};

}  // namespace

Validity validity_of(const Ranking& ranking, const JobForecast& forecast, const ClusterTable& table,
                     const RankingRules& rules) {
  return Validator(ranking, forecast, table, rules).run();
}

std::uint64_t improvable_types_of(const JobForecast& forecast, const ClusterTable& table) {
  const JobRow& row = table.rows()[forecast.slot];
  const auto speeds = table.capabilities(row.slot);
  if (forecast.pinned) return 0;
  const bool lacks = row.held_total < row.min_devices || row.held_speed <= 0;
  // What these jobs may get cannot be bounded by types, so they are looked at whenever anything is
  // left.
  if (forecast.keeps_minimum || (forecast.holds && lacks)) return ~std::uint64_t{0};
  if (forecast.at_optimum) return 0;
  // The remaining work only falls, so a job that keeps its devices by this test keeps them later
  // too: the gain falls with the work and the cost of the pause stays.
  const double remaining = forecast.holds ? table.remaining(row) : 0;
  const double paused = std::max(0.0, row.paused_until_s - table.now_s());
  std::uint64_t types = 0;
  for (std::size_t t = 0; t < speeds.size(); ++t) {
    if (speeds[t] <= 0) continue;
    const double bound = row.max_devices * speeds[t] * (1 + kRounding);
    const bool keeps =
        forecast.holds && remaining / bound + std::max(paused, kPausesToGain * row.pause_s) >=
                              remaining / row.held_speed + paused;
    if (!keeps) types |= type_bit(t);
  }
  return types;
}

}  // namespace es::scheduler
