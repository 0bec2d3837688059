#include "scheduler/policy/elastic_srtf/service_line.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "scheduler/policy/common/choice.h"

namespace es::scheduler {
namespace {

using Row = Board::Row;

constexpr double kNarrow = 0.125;         // part of the cluster
constexpr double kDeadlineMargin = 0.25;  // part of the time that the job needs
// Above this multiple of rho_max no job is moved before the job.
constexpr double kOverdueFactor = 2;
constexpr double kRounding = 1e-9;  // relative error of values that are computed later
constexpr int kStepBits = 48;       // bits of a double below those that give its step
constexpr std::int64_t kUnknownStep = std::int64_t{1} << 20;  // after all steps

// Returns a time slightly before `dt` seconds have passed, so that rounding cannot make the job be
// looked at too late.
double shortly_before(double now_s, double dt) {
  return now_s + dt - 1e-6 * (1 + dt);
}

std::uint64_t wakes_of(const ServiceLine& line, const Board& board, const Row& row) {
  const auto speeds = board.capabilities(row.slot);
  if (line.pinned) return 0;
  const bool lacks = row.held_total < row.min_devices || row.held_speed <= 0;
  if (line.keeps_minimum || (line.holds && lacks)) return ~std::uint64_t{0};
  if (line.best_off) return 0;
  const double remaining = line.holds ? board.remaining(row) : 0;
  const double paused = std::max(0.0, row.paused_until_s - board.now_s());
  std::uint64_t wakes = 0;
  for (std::size_t t = 0; t < speeds.size(); ++t) {
    if (speeds[t] <= 0) continue;
    const double bound = row.max_devices * speeds[t] * (1 + kRounding);
    const bool keeps =
        line.holds && remaining / bound + std::max(paused, kPausesToGain * row.pause_s) >=
                          remaining / row.held_speed + paused;
    if (!keeps) wakes |= type_bit(t);
  }
  return wakes;
}

// The time when an amount of `seconds` has fallen by `drop`. First it falls with the pause of the
// job, then as alone_at() does.
double when_fallen(const ServiceLine& line, double now_s, double pause_left_s, double seconds,
                   double drop) {
  if (drop <= pause_left_s) return shortly_before(now_s, drop);
  if (line.alone_falls <= 0) return kNever;
  const double steady_s = std::max(pause_left_s, line.from_s - now_s);
  const double error = 1e-12 * seconds / line.alone_falls;
  return shortly_before(now_s, steady_s + (drop - pause_left_s) / line.alone_falls - error);
}

// One call of standing_at().
class Observer {
 public:
  Observer(const ServiceLine& line, const Board& board, const ServiceRules& rules)
      : line_(line),
        board_(board),
        rules_(rules),
        row_(board.rows()[line.slot]),
        now_s_(board.now_s()) {}

  Standing run() {
    Place& place = result_.place;
    place.number = line_.number;
    place.slot = line_.slot;
    place.pinned = line_.pinned;
    place.keeps_minimum = line_.keeps_minimum;
    place.holds = line_.holds;
    place.best_off = line_.best_off;
    place.paused = now_s_ < line_.paused_until_s;
    if (place.paused) until(line_.paused_until_s);
    place.wakes = wakes_of(line_, board_, row_);
    line_.known ? observe() : observe_unknown();
    return result_;
  }

 private:
  void until(double time_s) { result_.next_s = std::min(result_.next_s, time_s); }
  // Makes every decision look at the job.
  void watch() { result_.next_s = now_s_; }
  void put(Service service, std::int64_t key) {
    result_.place.rank = Place::rank_of(line_.priority_rank, service);
    result_.place.key = key;
  }

  void observe() {
    const double alone_s = line_.alone_at(now_s_);
    if (now_s_ <= line_.from_s) until(line_.from_s);
    if (const double done_s = line_.done_at_s(); now_s_ < done_s) until(done_s);
    result_.alone_step = step_of(alone_s);
    if (is_urgent(alone_s)) return;
    const double age_s = now_s_ - line_.submit_s;
    const double jobs = board_.job_seconds() - line_.job_seconds_at_submit;
    const double sharing = age_s > 0 ? jobs / age_s : 1;
    if (is_aged(age_s + alone_s, fair_s(sharing))) return certify_aged(age_s, jobs);
    certify_young(age_s + alone_s, age_s, jobs);
    result_.may_be_critical = line_.is_narrow() && line_.is_finite();
    const bool critical = result_.may_be_critical && result_.alone_step >= rules_.critical_step;
    critical ? put_critical(alone_s) : put_ordinary(alone_s);
  }

  bool is_urgent(double alone_s) {
    const double needs_s = alone_s * (1 + kDeadlineMargin) + line_.pause_s;
    if (now_s_ >= line_.deadline_s) return false;
    const double slack_s = line_.deadline_s - (now_s_ + needs_s);
    if (slack_s > 0) {
      if (line_.deadline_s < kNever) until(shortly_before(now_s_, slack_s));
      return false;
    }
    put(Service::kUrgent, ascending(line_.deadline_s));
    watch();
    return true;
  }

  void put_critical(double alone_s) {
    put(Service::kCritical, -result_.alone_step);
    const double drop_s = alone_s - step_begin(result_.alone_step);
    until(when_fallen(line_, now_s_, 0, alone_s, drop_s));
  }

  void put_ordinary(double alone_s) {
    const double pause_left_s = std::max(0.0, line_.paused_until_s - now_s_);
    const double seconds = alone_s + pause_left_s + line_.key_s;
    const std::int64_t step = step_of(std::max(0.0, seconds) * line_.width);
    put(Service::kOrdinary, step);
    if (seconds <= 0) return;
    const double drop_s = std::max(0.0, seconds - step_begin(step) / line_.width);
    until(when_fallen(line_, now_s_, pause_left_s, seconds, drop_s));
  }

  double fair_s(double sharing) const {
    return line_.pause_s +
           std::max(line_.fair_alone_s, line_.fair_shared_s * std::max(1.0, sharing));
  }

  // `late_s` is the time from its submission until it would end. `fair` is the same with a 1/n
  // share.
  bool is_aged(double late_s, double fair) {
    late_s_ = late_s;
    bound_s_ = std::max(fair, 1.0);
    if (late_s > rules_.rho_max * bound_s_) {
      const double rho = late_s / bound_s_;
      const bool overdue = rho > kOverdueFactor * rules_.rho_max;
      put(overdue ? Service::kOverdue : Service::kAged, -step_of(rho));
      return true;
    }
    if (!line_.holds && !line_.pinned) {
      // The time at which the job ages into this class, if nothing happens before.
      const double later_s = (rules_.rho_max * bound_s_ - late_s) * (fair / bound_s_);
      result_.waits = later_s > kAgesSoon;
      if (!result_.waits) result_.ages_s = now_s_ + std::max(1.0, later_s);
    }
    return false;
  }

  // certify_below() rests on two bounds. The number of jobs that share the cluster with the job is
  // its job-seconds divided by its age: job-seconds only grow, so the lowest value that is possible
  // at a later time is the present job-seconds divided by the age then. The time by which the job
  // would be late grows by at most one second per second, and never falls.

  // Finds a time until which late + ahead_s surely stays below rho * bound.
  void certify_below(double rho, double ahead_s, double age_s, double jobs) {
    double dt = std::max(0.0, rho * bound_s_ - late_s_ - ahead_s);
    for (int i = 0; i < 10; ++i, dt /= 2) {
      const double bound_s = std::max(1.0, fair_s(age_s + dt > 0 ? jobs / (age_s + dt) : 1));
      if (late_s_ + dt + ahead_s <= rho * bound_s * (1 - kRounding)) return until(now_s_ + dt);
    }
    watch();
  }

  void certify_young(double late_s, double age_s, double jobs) {
    late_s_ = late_s;
    if (result_.ages_s < kNever) return watch();
    certify_below(rules_.rho_max, result_.waits ? kAgesSoon : 0, age_s, jobs);
  }

  void certify_aged(double age_s, double jobs) {
    const double rho = late_s_ / bound_s_;
    const double overdue = kOverdueFactor * rules_.rho_max;
    const std::int64_t step = step_of(rho);
    double low = std::max(step_begin(step), rho > overdue ? overdue : rules_.rho_max);
    double high = step_begin(step + 1);
    if (rho <= overdue) high = std::min(high, overdue);
    certify_below(high, 0, age_s, jobs);
    if (line_.fair_shared_s <= 0) return;
    const double sharing = (late_s_ / low * (1 - kRounding) - line_.pause_s) / line_.fair_shared_s;
    if (sharing < 1) return watch();
    result_.next_job_seconds = line_.job_seconds_at_submit + sharing * age_s;
    if (board_.job_seconds() > result_.next_job_seconds) watch();
  }

  // Jobs of unknown length come after all others, the least attained service first. They are not
  // part of projections.
  void observe_unknown() {
    watch();
    result_.alone_step = step_of(Board::kUnknownSteps);
    // Such a job ages by the steps that it has done.
    if (row_.best_speed > 0 && is_aged(now_s_ - line_.submit_s,
                                       row_.pause_s + board_.done(row_) / board_.fair_speed(row_)))
      return;
    put(Service::kOrdinary, kUnknownStep + step_of(board_.attained(row_)));
  }

  const ServiceLine& line_;
  const Board& board_;
  const ServiceRules& rules_;
  const Row& row_;
  const double now_s_;
  double late_s_ = 0, bound_s_ = 1;
  Standing result_;
};

}  // namespace

std::int64_t step_of(double x) {
  return std::bit_cast<std::int64_t>(std::max(x, 0.0)) >> kStepBits;
}

double step_begin(std::int64_t step) {
  return std::bit_cast<double>(step << kStepBits);
}

double ServiceLine::alone_at(double now_s) const {
  if (!known) return Board::kUnknownSteps;
  const double ran_s = std::max(0.0, now_s - from_s);
  return std::clamp(alone_s - ran_s * alone_falls, 0.0, Board::kUnknownSteps);
}

double ServiceLine::done_at_s() const {
  return alone_falls > 0 ? from_s + alone_s / alone_falls : kNever;
}

Task ServiceLine::task_at(double now_s) const {
  if (!known) return {};
  return {width, alone_at(now_s) * width};
}

bool ServiceLine::is_narrow() const {
  return width <= kNarrow;
}

Backlog::Part Backlog::part_of(const ServiceLine& line, double now_s) {
  if (!line.is_finite()) return {};
  constexpr double kWorkMax = 1 << 30;  // seconds; longer than any job
  Part part;
  part.width = std::llround(std::ldexp(line.width, 40));
  if (now_s >= line.done_at_s()) return part;
  part.work = std::llround(std::ldexp(std::min(line.alone_s * line.width, kWorkMax), 32));
  if (now_s <= line.from_s) return part;
  part.falls = std::llround(std::ldexp(line.alone_falls * line.width, 48));
  part.from = std::llround(std::ldexp(line.from_s, 16));
  return part;
}

void Backlog::add(const Part& part, int sign) {
  work_ += sign * Wide{part.work};
  falls_ += sign * Wide{part.falls};
  falls_from_ += sign * Wide{part.falls} * part.from;
  widths_ += sign * part.width;
}

double Backlog::seconds_at(double now_s) const {
  const auto now = static_cast<Wide>(std::llround(std::ldexp(now_s, 16)));
  const Wide left = (work_ << 32) - (falls_ * now - falls_from_);
  return left <= 0 ? 0 : std::ldexp(static_cast<double>(left), -64);
}

double Backlog::widths() const {
  return std::ldexp(static_cast<double>(widths_), -40);
}

Standing standing_at(const ServiceLine& line, const Board& board, const ServiceRules& rules) {
  return Observer(line, board, rules).run();
}

}  // namespace es::scheduler
