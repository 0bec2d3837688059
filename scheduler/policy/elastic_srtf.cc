#include "scheduler/policy/elastic_srtf.h"

#include <algorithm>
#include <cmath>

#include "scheduler/policy/choice.h"
#include "scheduler/policy/outlook.h"
#include "scheduler/policy/speed.h"
#include "scheduler/policy/targets.h"

namespace es::scheduler {
namespace {

using Row = Board::Row;

constexpr double kMakespanSlack = 0.03;
constexpr double kClaimSlack = 0.25;  // a projection this late is answered by a claim
constexpr int kMovesMax = 4;
constexpr std::size_t kAhead = 8;  // rows that are fetched before they are needed
constexpr std::size_t kProjectedMax = 128;
constexpr ChoiceLimits kLimits{.efficiency_min = 0.8};

// One call of decide().
class Round {
 public:
  // `jobs`: arranged as of the board's time.
  Round(const Board& board, ServiceOrder& jobs)
      : board_(board),
        jobs_(jobs),
        again_s_(jobs.again_s()),
        order_(jobs.places()),
        targets_(board),
        served_(order_.size(), Served::kNot),
        paused_(board.types(), 0),
        left_(board.types()) {}

  Decisions run() {
    project();
    share_out();
    Decisions decisions = carry_out(board_, targets_, leaving());
    decisions.again_s = again_s_;
    return decisions;
  }

 private:
  // Changes the order so that all are done in time. Who comes first by priority, by a deadline
  // or because it is overdue does so still.
  void project() {
    if (jobs_.widths() <= 1) return;  // nobody waits
    std::size_t fixed = first_movable();
    if (order_.size() > kProjectedMax) fixed = std::max(fixed, order_.size() - kProjectedMax);
    std::vector<Task> tasks;
    double after_s = 0;
    for (std::size_t i = fixed; i < order_.size(); ++i) {
      tasks.push_back(order_[i].task);
      after_s += order_[i].task.work_s;
    }
    const double before_s = std::max(0.0, jobs_.backlog_s() - after_s);
    const double horizon_s = jobs_.horizon_s();
    if (surely_in_time(tasks, before_s, (1 + kMakespanSlack) * horizon_s)) return;

    const Order order = meet_deadline(tasks, before_s, (1 + kMakespanSlack) * horizon_s, kMovesMax);
    std::vector<Place> moved;
    for (const std::size_t i : order.tasks) moved.push_back(order_[fixed + i]);
    std::copy(moved.begin(), moved.end(), order_.begin() + static_cast<std::ptrdiff_t>(fixed));
    const double latest_s = (1 + kClaimSlack) * horizon_s;
    if (order.done_s > latest_s) {
      claimant_ = fixed + order.last;
      claim_ = std::min(1.0, order_[claimant_].alone_s / latest_s);
    }
  }

  std::size_t first_movable() const {
    std::size_t i = 0;
    while (i < order_.size() && (order_[i].service() <= Service::kOverdue ||
                                 order_[i].priority_rank() < order_.back().priority_rank()))
      ++i;
    return i;
  }

  void share_out() {
    serve_fixed();
    for (std::size_t i = 0; i < order_.size(); ++i)
      if (order_[i].paused) keep_paused(i);
    if (board_.has_quotas()) serve_owners();
    const std::size_t claims_at = claim_ > 0 ? first_movable() : order_.size();
    for (std::size_t i = 0; i < order_.size() && !all_given(); ++i) {
      const std::size_t ahead = i + kAhead;
      if (ahead < order_.size() && !order_[ahead].best_off)
        fetch(board_.rows(), order_[ahead].slot);
      if (i == claims_at) serve_claim(claimant_);
      serve(i);
    }
  }

  bool all_given() const {
    for (const std::uint32_t n : targets_.left())
      if (n > 0) return false;
    return true;
  }

  void serve_fixed() {
    std::vector<std::size_t> slots;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (!order_[i].pinned && !order_[i].keeps_minimum) continue;
      slots.push_back(order_[i].slot);
      served_[i] = Served::kSome;
    }
    if (!slots.empty()) place_fixed(board_, slots, targets_);
  }

  void keep_paused(std::size_t i) {
    const std::size_t slot = order_[i].slot;
    const Row& row = board_.rows()[slot];
    if (row.pinned) return;
    const auto held = board_.held(slot);
    for (std::size_t t = 0; t < left_.size(); ++t)
      if (held[t] > targets_.left()[t] + targets_.of(slot)[t]) return;
    targets_.set(slot, held);
    served_[i] = Served::kKeeps;
    again_s_ = std::min(again_s_, std::max(board_.now_s() + 1, row.paused_until_s));
    for (std::size_t t = 0; t < left_.size(); ++t) paused_[t] += held[t];
  }

  // Every tenant's jobs first have what it owns.
  void serve_owners() {
    std::vector<Counts> owned;
    for (const Board::Tenant& tenant : board_.tenants()) owned.push_back(tenant.owned);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const std::size_t slot = order_[i].slot;
      const Row& row = board_.rows()[slot];
      Counts& rest = owned[row.tenant];
      if (!row.pinned && served_[i] != Served::kKeeps) {
        for (std::size_t t = 0; t < left_.size(); ++t)
          left_[t] = std::min(rest[t], targets_.left()[t] + targets_.of(slot)[t]);
        assign(i, best_choice(board_, row, left_, kLimits));
      }
      const auto has = targets_.of(slot);
      for (std::size_t t = 0; t < left_.size(); ++t) rest[t] -= std::min(rest[t], has[t]);
    }
  }

  // The nearest number of devices that makes a difference, to the part that it claims.
  void serve_claim(std::size_t i) {
    const Row& row = board_.rows()[order_[i].slot];
    if (row.pinned || served_[i] == Served::kKeeps) return;
    const double wanted = claim_ * row.max_devices;
    const std::uint32_t less =
        useful_devices(row.max_p, std::max(1U, static_cast<std::uint32_t>(wanted)));
    std::uint32_t more = less + 1;
    while (more < row.max_devices && useful_devices(row.max_p, more) < more) ++more;
    Row part = row;
    part.max_devices = std::max(row.min_devices, wanted < less + 0.6 * (more - less) ? less : more);
    part.max_devices = std::min(part.max_devices, row.max_devices);
    offer(row.slot);
    assign(i, best_choice(board_, part, left_, kLimits));
  }

  void serve(std::size_t i) {
    const Place& place = order_[i];
    if (place.pinned || served_[i] == Served::kKeeps) return;
    const bool is_new = served_[i] == Served::kNot;
    if (is_new && place.best_off && targets_.keep(board_, place.slot)) {
      served_[i] = Served::kKeeps;
      return;
    }
    const Row& row = board_.rows()[place.slot];
    if (is_new && surely_keeps(board_, row, targets_.left())) {
      targets_.keep(board_, place.slot);
      served_[i] = Served::kKeeps;
      return;
    }
    offer(place.slot);
    if (surely_nothing(board_, row, left_)) return wait_for_pauses(row);
    if (is_best_off(place)) return give(i, board_.held(place.slot));
    const Choice choice = best_choice(board_, row, left_, kLimits);
    if (choice.counts.empty()) return wait_for_pauses(row);
    assign(i, choice);
  }

  // A job that needs many devices at once keeps those that are left until pauses are over: else
  // there would always be somebody in a pause.
  void wait_for_pauses(const Row& row) {
    for (std::size_t t = 0; t < left_.size(); ++t) left_[t] += paused_[t];
    if (surely_nothing(board_, row, left_)) return;
    const Choice later = best_choice(board_, row, left_, kLimits);
    if (!later.counts.empty()) targets_.reserve(later.counts);
  }

  // Nothing is faster than what it holds, and it can keep that.
  bool is_best_off(const Place& place) const {
    if (!place.best_off) return false;
    const auto held = board_.held(place.slot);
    for (std::size_t t = 0; t < left_.size(); ++t)
      if (held[t] > left_[t]) return false;
    return true;
  }

  // What the job may choose from: what is left, and what it was given already.
  void offer(std::size_t slot) {
    for (std::size_t t = 0; t < left_.size(); ++t)
      left_[t] = targets_.left()[t] + targets_.of(slot)[t];
  }

  void assign(std::size_t i, const Choice& choice) {
    if (!choice.counts.empty()) give(i, choice.counts);
  }

  void give(std::size_t i, std::span<const std::uint32_t> counts) {
    targets_.set(order_[i].slot, counts);
    served_[i] = Served::kSome;
  }

  // Those that hold something and may have to give up all of it. The others whose target may differ
  // from what they hold are ranked.
  std::vector<std::size_t> leaving() {
    std::vector<std::size_t> slots;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Place& place = order_[i];
      if (place.pinned || served_[i] == Served::kKeeps) continue;
      if (served_[i] == Served::kSome) targets_.rank(place.slot);
      if (place.holds) slots.push_back(place.slot);
    }
    return slots;
  }

  enum class Served : std::uint8_t {
    kNot,    // no target yet
    kSome,   // a target, which may still change
    kKeeps,  // what it holds, for certain
  };

  const Board& board_;
  const ServiceOrder& jobs_;
  double again_s_;
  std::vector<Place>& order_;
  Targets targets_;
  std::vector<Served> served_;  // as order_
  std::size_t claimant_ = 0;    // place in order_
  double claim_ = 0;            // part of its devices; 0: nobody claims
  Counts paused_;               // held by jobs in a pause
  Counts left_;                 // scratch
};

}  // namespace

ElasticSrtf::ElasticSrtf(double fairness) : jobs_(1 + 0.05 * std::pow(400.0, 1 - fairness)) {}

Decisions ElasticSrtf::decide(const ClusterView& view) {
  board_.update(view);
  jobs_.update(board_);
  if (!board_.has_quotas())
    if (auto decisions = serve_everybody(board_)) return std::move(*decisions);
  jobs_.arrange(board_);
  return Round(board_, jobs_).run();
}

}  // namespace es::scheduler
