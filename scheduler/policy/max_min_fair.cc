#include "scheduler/policy/max_min_fair.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include "scheduler/policy/common/carry_out.h"
#include "scheduler/policy/common/choice.h"
#include "scheduler/policy/common/speed.h"
#include "scheduler/policy/common/targets.h"

namespace es::scheduler {
namespace {

constexpr double kTurnSeconds = 120;

// One call of decide().
class FairDecision {
 public:
  explicit FairDecision(const ClusterTable& table)
      : table_(table), targets_(table), kept_(table.rows().size(), false) {}

  Decisions run() {
    std::vector<Keyed> order = by_share();
    if (has_fixed_targets(table_))
      start_all(order);
    else
      start_first(order);
    fill_progressively();
    for (const Keyed& keyed : order)
      if (!table_.rows()[keyed.slot].pinned) targets_.rank(keyed.slot);
    Decisions decisions = carry_out(table_, targets_);
    decisions.again_at = Seconds(next_turn_s());
    return decisions;
  }

 private:
  struct Entry {
    double share;  // normalised throughput
    std::uint64_t number;
    std::size_t slot;
    bool operator>(const Entry& o) const {
      return std::tie(share, number) > std::tie(o.share, o.number);
    }
  };

  struct Keyed {
    std::tuple<int, double, std::uint64_t> key;
    std::size_t slot;
    bool operator<(const Keyed& o) const { return key < o.key; }
    bool operator>(const Keyed& o) const { return o.key < key; }
  };

  // Keys of all jobs: priority, then the part of their fair share that they have had until now.
  std::vector<Keyed> by_share() const {
    std::vector<Keyed> keyed;
    for (const JobRow& row : table_.rows()) {
      if (!row.present) continue;
      const double due = table_.fair_speed(row) * (table_.now_s() - row.submit_s);
      const double done = table_.done(row);
      keyed.push_back({{-row.priority, due > 0 ? done / due : 0, row.number}, row.slot});
    }
    return keyed;
  }

  void start_all(std::vector<Keyed>& order) {
    std::sort(order.begin(), order.end());
    std::vector<std::size_t> slots;
    for (const Keyed& keyed : order) slots.push_back(keyed.slot);
    set_fixed_targets(table_, slots, targets_);
    // Before any job starts, so that a job keeps its devices for its whole turn.
    for (const std::size_t slot : slots) keep_held_in_turn(table_.rows()[slot]);
    for (const std::size_t slot : slots) start(table_.rows()[slot]);
  }

  // The same without fixed targets, in time that is linear in the number of jobs: when no device is
  // left, the order of the jobs that wait does not matter. Leaves the jobs that may have targets.
  void start_first(std::vector<Keyed>& order) {
    for (const JobRow& row : table_.rows())
      if (row.present) keep_held_in_turn(row);
    std::make_heap(order.begin(), order.end(), std::greater<>());
    std::vector<Keyed> served;
    while (!order.empty() && total(targets_.left()) > 0) {
      std::pop_heap(order.begin(), order.end(), std::greater<>());
      start(table_.rows()[order.back().slot]);
      served.push_back(order.back());
      order.pop_back();
    }
    for (const Keyed& keyed : order)
      if (kept_[keyed.slot]) served.push_back(keyed);
    std::sort(served.begin(), served.end());
    order = std::move(served);
  }

  // The turn begins when the job makes steps. Otherwise jobs with long pauses would only take turns
  // in pausing.
  static double turn_end_s(const JobRow& row) {
    return std::max(row.changed_s, row.paused_until_s) + kTurnSeconds;
  }

  bool has_turn(const JobRow& row) const {
    return row.held_total >= row.min_devices && (!row.settled || table_.now_s() < turn_end_s(row));
  }

  void keep_held_in_turn(const JobRow& row) {
    if (row.pinned || !has_turn(row)) return;
    const auto held = table_.held(row.slot);
    for (std::size_t t = 0; t < held.size(); ++t)
      if (held[t] > targets_.left()[t] + targets_.of(row.slot)[t]) return;
    targets_.set(row.slot, held);
    kept_[row.slot] = true;
  }

  // Gives the job its minimum of the type that is fastest for it.
  void start(const JobRow& row) {
    if (row.pinned || kept_[row.slot]) return;
    const auto speeds = table_.capabilities(row.slot);
    const auto held = table_.held(row.slot);
    std::size_t best = speeds.size();
    for (std::size_t t = 0; t < speeds.size(); ++t) {
      const bool fits = targets_.left()[t] + targets_.of(row.slot)[t] >= row.min_devices;
      if (speeds[t] <= 0 || !fits) continue;
      const bool better = best == speeds.size() || speeds[t] > speeds[best] ||
                          // Of equally fast types the one that it holds, because then it need not
                          // move.
                          (speeds[t] == speeds[best] && held[t] > held[best]);
      if (better) best = t;
    }
    if (best == speeds.size()) return;
    Counts counts(table_.types(), 0);
    counts[best] = row.min_devices;
    targets_.set(row.slot, counts);
    queue_.push({share(row, counts), row.number, row.slot});
  }

  double share(const JobRow& row, std::span<const std::uint32_t> counts) const {
    return speed_on(table_, row, counts) / table_.fair_speed(row);
  }

  // Progressive filling: the job with the smallest share grows first.
  void fill_progressively() {
    while (!queue_.empty()) {
      const Entry entry = queue_.top();
      queue_.pop();
      if (grow(table_.rows()[entry.slot]))
        queue_.push(
            {share(table_.rows()[entry.slot], targets_.of(entry.slot)), entry.number, entry.slot});
    }
  }

  // Adds the fewest devices that make the job faster. Returns false if it cannot have them.
  bool grow(const JobRow& row) {
    // Below its minimum a job is granted exactly what it lacks (policy.h, rule `start`).
    if (row.held_total > 0 && row.held_total < row.min_devices) return false;
    const auto had = targets_.of(row.slot);
    Counts counts(had.begin(), had.end());
    std::size_t type = 0;
    // A target has exactly one type: start() has set it.
    while (counts[type] == 0) ++type;
    const std::uint32_t n = counts[type];
    // The step becomes shorter when the largest number of ESTs on one device falls by one.
    const std::uint32_t ests = (row.max_p + n - 1) / n;
    if (ests <= 1) return false;
    counts[type] = (row.max_p + ests - 2) / (ests - 1);
    const std::uint32_t held = table_.held(row.slot)[type];
    // A job that stays on its type may grow only by what it has proposed (policy.h, rule `grow`).
    const std::uint32_t most = held > 0 ? held + table_.grantable(row.slot)[type] : row.max_devices;
    if (counts[type] > std::min(most, row.max_devices)) return false;
    if (counts[type] - n > targets_.left()[type]) return false;
    if (table_.fall_back_of(row.slot, counts) != nullptr) return false;
    // Only communication can make a job no faster with more devices.
    if (speed_on(table_, row, counts) <= speed_on(table_, row, had)) return false;
    targets_.set(row.slot, counts);
    return true;
  }

  // Returns the time at which the next turn of a job ends.
  double next_turn_s() const {
    double next = kNeverS;
    for (const JobRow& row : table_.rows()) {
      const double end_s = turn_end_s(row);
      // A job that has not settled may keep its turn beyond this end. Its next report causes a
      // decision anyway.
      if (has_turn(row) && end_s > table_.now_s()) next = std::min(next, end_s);
    }
    return next;
  }

  const ClusterTable& table_;
  Targets targets_;
  std::vector<bool> kept_;  // by slot: its turn is not over
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

Decisions MaxMinFair::decide(const ClusterView& view) {
  table_.update(view);
  return FairDecision(table_).run();
}

}  // namespace es::scheduler
