#include "scheduler/policy/elastic_srtf.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "scheduler/policy/choice.h"
#include "scheduler/policy/outlook.h"
#include "scheduler/policy/speed.h"
#include "scheduler/policy/targets.h"

namespace es::scheduler {
namespace {

using Row = Board::Row;

constexpr double kMakespanSlack = 0.03;
constexpr double kClaimSlack = 0.25;      // a projection this late is answered by a claim
constexpr double kCriticalPart = 0.9;     // of the horizon
constexpr double kNarrow = 0.125;         // of the cluster
constexpr double kDeadlineMargin = 0.25;  // of the time that the job needs
constexpr double kOverdueFactor = 2;      // beyond rho_max: nobody is moved before such a job
constexpr int kMovesMax = 4;
constexpr std::size_t kProjectedMax = 256;
constexpr ChoiceLimits kLimits{.efficiency_min = 0.8};

enum Class { kUrgent, kOverdue, kAged, kCritical, kOrdinary };

struct Ranked {
  std::size_t slot = 0;
  std::uint64_t number = 0;
  int priority = 0;
  Class service = kOrdinary;
  double key = 0;  // smaller first, within the class
  double alone_s = 0;
  Task task = {};

  bool operator<(const Ranked& o) const {
    return std::tie(o.priority, service, key, number) <
           std::tie(priority, o.service, o.key, o.number);
  }
};

// The order is a total one, so that it does not depend on the order before. Insertion sort, while
// few elements are out of place.
void sort_nearly_sorted(std::vector<Ranked>& ranked) {
  std::size_t shifts_left = 16 * ranked.size();
  for (std::size_t i = 1; i < ranked.size(); ++i) {
    if (!(ranked[i] < ranked[i - 1])) continue;
    const auto end = ranked.begin() + static_cast<std::ptrdiff_t>(i);
    const auto at = std::upper_bound(ranked.begin(), end, ranked[i]);
    const auto shifts = static_cast<std::size_t>(end - at);
    if (shifts > shifts_left) return std::sort(ranked.begin(), ranked.end());
    shifts_left -= shifts;
    std::rotate(at, end, end + 1);
  }
}

// One call of decide().
class Round {
 public:
  // `order`: slots in the order of the last time, which is nearly the order of this time; becomes
  // the order of this time.
  Round(const Board& board, double rho_max, std::vector<std::size_t>& order)
      : board_(board),
        rho_max_(rho_max),
        order_(order),
        targets_(board),
        paused_(board.types(), 0),
        left_(board.types()) {}

  Decisions run() {
    rank_all();
    project();
    share_out();
    Decisions decisions = carry_out(board_, targets_);
    decisions.again_s = again_s_;
    return decisions;
  }

 private:
  void rank_all() {
    double backlog_s = 0;
    ranked_.reserve(board_.rows().size());
    for (const std::size_t slot : slots_in_last_order()) {
      ranked_.push_back(rank(board_.rows()[slot]));
      const Ranked& last = ranked_.back();
      if (last.alone_s >= Board::kUnknownSteps) continue;
      horizon_s_ = std::max(horizon_s_, last.alone_s);
      backlog_s += last.task.work_s;
      widths_ += last.task.width;
    }
    horizon_s_ = std::max(horizon_s_, backlog_s);
    for (Ranked& job : ranked_) {
      const bool critical = job.service == kOrdinary && job.task.width <= kNarrow &&
                            job.alone_s >= kCriticalPart * horizon_s_;
      if (critical) job.service = kCritical, job.key = -job.alone_s;
    }
    sort_nearly_sorted(ranked_);
    order_.clear();
    for (const Ranked& job : ranked_) order_.push_back(job.slot);
  }

  // The slots in use: those that were ranked last time in the order of that time, then the others.
  std::vector<std::size_t> slots_in_last_order() const {
    const std::vector<Row>& rows = board_.rows();
    std::vector<bool> seen(rows.size(), false);
    std::vector<std::size_t> slots;
    const auto add = [&](std::size_t slot) {
      if (slot < rows.size() && rows[slot].present && !seen[slot]) slots.push_back(slot);
      if (slot < rows.size()) seen[slot] = true;
    };
    for (const std::size_t slot : order_) add(slot);
    for (std::size_t slot = 0; slot < rows.size(); ++slot) add(slot);
    return slots;
  }

  Ranked rank(const Row& row) {
    Ranked job;
    job.slot = row.slot;
    job.number = row.number;
    job.priority = row.priority;
    if (row.best_speed <= 0 || board_.is_unknown(row)) {
      // After all others, those that were given least so far first. Not part of the projection.
      job.alone_s = Board::kUnknownSteps;
      job.key = Board::kUnknownSteps + board_.attained(row);
      if (row.best_speed > 0) age(row, 0, board_.done(row), job);
      return job;
    }
    job.alone_s = std::min(Board::kUnknownSteps, board_.remaining(row) / row.best_speed);
    const double width = std::min(1.0, row.best_speed / row.cluster_speed);
    job.task = {width, job.alone_s * width};
    // Whatever depends on what it holds must never make a job that lost it come earlier: two
    // decisions would undo each other.
    const double pause = row.held_total > 0 ? row.pause_s : 0;
    job.key = std::max(0.0, board_.seconds_alone(row) - pause) * width;
    classify(row, job);
    return job;
  }

  void classify(const Row& row, Ranked& job) {
    const double now = board_.now_s();
    const double needs_s = job.alone_s * (1 + kDeadlineMargin) + row.pause_s;
    if (now < row.deadline_s && now + needs_s >= row.deadline_s) {
      job.service = kUrgent;
      job.key = row.deadline_s;
    } else {
      age(row, job.alone_s, row.total_steps, job);
    }
  }

  // A job that would have so many steps done in so many seconds more.
  void age(const Row& row, double more_s, double steps, Ranked& job) {
    const double now = board_.now_s();
    const double fair_s = row.pause_s + steps / board_.fair_speed(row);
    const double rho = (now - row.submit_s + more_s) / std::max(fair_s, 1.0);
    if (rho > rho_max_) {
      job.service = rho > kOverdueFactor * rho_max_ ? kOverdue : kAged;
      job.key = -rho;
    } else if (row.held_total == 0 && !row.pinned) {
      // When it ages into that class, should nothing happen before.
      again_s_ = std::min(again_s_, now + std::max(1.0, fair_s * (rho_max_ - rho)));
    }
  }

  // Changes the order so that all are done in time. Who comes first by priority, by a deadline
  // or because it is overdue does so still.
  void project() {
    if (widths_ <= 1) return;  // nobody waits
    std::size_t fixed = first_movable();
    if (ranked_.size() > kProjectedMax) fixed = std::max(fixed, ranked_.size() - kProjectedMax);
    std::vector<Task> tasks;
    double before_s = 0;
    for (std::size_t i = 0; i < fixed; ++i) before_s += ranked_[i].task.work_s;
    for (std::size_t i = fixed; i < ranked_.size(); ++i) tasks.push_back(ranked_[i].task);

    const Order order =
        meet_deadline(tasks, before_s, (1 + kMakespanSlack) * horizon_s_, kMovesMax);
    std::vector<Ranked> moved;
    for (const std::size_t i : order.tasks) moved.push_back(ranked_[fixed + i]);
    std::copy(moved.begin(), moved.end(), ranked_.begin() + static_cast<std::ptrdiff_t>(fixed));
    const double latest_s = (1 + kClaimSlack) * horizon_s_;
    if (order.done_s > latest_s) {
      claimant_ = fixed + order.last;
      claim_ = std::min(1.0, ranked_[claimant_].alone_s / latest_s);
    }
  }

  std::size_t first_movable() const {
    std::size_t i = 0;
    const int lowest = ranked_.empty() ? 0 : ranked_.back().priority;
    while (i < ranked_.size() && (ranked_[i].service <= kOverdue || ranked_[i].priority > lowest))
      ++i;
    return i;
  }

  void share_out() {
    std::vector<std::size_t> order;
    for (const Ranked& job : ranked_) order.push_back(job.slot);
    place_fixed(board_, order, targets_);
    served_.assign(board_.rows().size(), false);
    for (const std::size_t slot : order) keep_paused(board_.rows()[slot]);
    if (board_.has_quotas()) serve_owners(order);
    const std::size_t fixed = first_movable();
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i == fixed && claim_ > 0) serve_claim(board_.rows()[order[claimant_]]);
      serve(board_.rows()[order[i]]);
    }
    for (const std::size_t slot : order)
      if (!board_.rows()[slot].pinned) targets_.rank(slot);
  }

  bool paused(const Row& row) const {
    return row.held_total > 0 && board_.now_s() < row.paused_until_s;
  }

  void keep_paused(const Row& row) {
    if (row.pinned || !paused(row)) return;
    const auto held = board_.held(row.slot);
    for (std::size_t t = 0; t < left_.size(); ++t)
      if (held[t] > targets_.left()[t] + targets_.of(row.slot)[t]) return;
    targets_.set(row.slot, held);
    served_[row.slot] = true;
    again_s_ = std::min(again_s_, std::max(board_.now_s() + 1, row.paused_until_s));
    for (std::size_t t = 0; t < left_.size(); ++t) paused_[t] += held[t];
  }

  // Every tenant's jobs first have what it owns.
  void serve_owners(const std::vector<std::size_t>& order) {
    std::vector<Counts> owned;
    for (const Board::Tenant& tenant : board_.tenants()) owned.push_back(tenant.owned);
    for (const std::size_t slot : order) {
      const Row& row = board_.rows()[slot];
      Counts& rest = owned[row.tenant];
      if (!row.pinned && !served_[slot]) {
        for (std::size_t t = 0; t < left_.size(); ++t)
          left_[t] = std::min(rest[t], targets_.left()[t] + targets_.of(slot)[t]);
        assign(row, best_choice(board_, row, left_, kLimits));
      }
      const auto has = targets_.of(slot);
      for (std::size_t t = 0; t < left_.size(); ++t) rest[t] -= std::min(rest[t], has[t]);
    }
  }

  // The nearest number of devices that makes a difference, to the part that it claims.
  void serve_claim(const Row& row) {
    if (row.pinned || served_[row.slot]) return;
    const double wanted = claim_ * row.max_devices;
    const std::uint32_t less =
        useful_devices(row.max_p, std::max(1U, static_cast<std::uint32_t>(wanted)));
    std::uint32_t more = less + 1;
    while (more < row.max_devices && useful_devices(row.max_p, more) < more) ++more;
    Row part = row;
    part.max_devices = std::max(row.min_devices, wanted < less + 0.6 * (more - less) ? less : more);
    part.max_devices = std::min(part.max_devices, row.max_devices);
    offer(row.slot);
    assign(row, best_choice(board_, part, left_, kLimits));
  }

  void serve(const Row& row) {
    if (row.pinned || served_[row.slot]) return;
    if (std::all_of(targets_.left().begin(), targets_.left().end(),
                    [](std::uint32_t n) { return n == 0; }))
      return;
    offer(row.slot);
    if (is_best_off(row)) return targets_.set(row.slot, board_.held(row.slot));
    const Choice choice = best_choice(board_, row, left_, kLimits);
    if (choice.counts.empty()) return wait_for_pauses(row);
    assign(row, choice);
  }

  // A job that needs many devices at once keeps those that are left until pauses are over: else
  // there would always be somebody in a pause.
  void wait_for_pauses(const Row& row) {
    for (std::size_t t = 0; t < left_.size(); ++t) left_[t] += paused_[t];
    const Choice later = best_choice(board_, row, left_, kLimits);
    if (!later.counts.empty()) targets_.reserve(later.counts);
  }

  // Nothing is faster than what it holds, and it can keep that.
  bool is_best_off(const Row& row) const {
    const auto held = board_.held(row.slot);
    for (std::size_t t = 0; t < left_.size(); ++t)
      if (held[t] > left_[t]) return false;
    return row.held_total >= row.min_devices && row.held_speed >= row.best_speed * (1 - 1e-9);
  }

  // What the job may choose from: what is left, and what it was given already.
  void offer(std::size_t slot) {
    for (std::size_t t = 0; t < left_.size(); ++t)
      left_[t] = targets_.left()[t] + targets_.of(slot)[t];
  }

  void assign(const Row& row, const Choice& choice) {
    if (!choice.counts.empty()) targets_.set(row.slot, choice.counts);
  }

  const Board& board_;
  const double rho_max_;
  std::vector<std::size_t>& order_;
  Targets targets_;
  std::vector<Ranked> ranked_;  // in the order of service
  std::vector<bool> served_;    // by slot: what it has is settled
  double horizon_s_ = 0;
  double again_s_ = kNever;
  double widths_ = 0;  // of all jobs together
  std::size_t claimant_ = 0;
  double claim_ = 0;  // part of its devices; 0: nobody claims
  Counts paused_;     // held by jobs in a pause
  Counts left_;       // scratch
};

}  // namespace

ElasticSrtf::ElasticSrtf(double fairness) : rho_max_(1 + 0.05 * std::pow(400.0, 1 - fairness)) {}

Decisions ElasticSrtf::decide(const ClusterView& view) {
  board_.update(view);
  if (!board_.has_quotas())
    if (auto decisions = serve_everybody(board_)) return std::move(*decisions);
  Round round(board_, rho_max_, order_);
  return round.run();
}

}  // namespace es::scheduler
