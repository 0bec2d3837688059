#include "scheduler/policy/rivals/tiresias.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "scheduler/policy/common/carry_out.h"
#include "scheduler/policy/common/choice.h"
#include "scheduler/policy/common/targets.h"

namespace es::scheduler {
namespace {

constexpr double kQueueEnd = 3250;  // device-seconds
// Also device-seconds. Sums of times are rounded, so at the end of queue 1 slightly less may have
// been attained. Without this margin the policy would ask again and again at the same time.
constexpr double kRounding = 1e-3;
constexpr double kPromoteKnob = 8;
// A promotion is looked for at least this often while jobs wait.
constexpr double kLookAgainS = 60;

// One call of decide().
class TiresiasDecision {
 public:
  explicit TiresiasDecision(const ClusterTable& table) : table_(table), targets_(table) {}

  Decisions run() {
    for (const JobRow& row : table_.rows())
      if (row.present) order_.push_back(key_of(row));
    if (has_fixed_targets(table_)) set_fixed();
    // Only the first jobs are served, so that of thousands that wait only these are sorted.
    std::make_heap(order_.begin(), order_.end(), std::greater<>());
    while (!order_.empty() && total(targets_.left()) + assured_ > 0) {
      std::pop_heap(order_.begin(), order_.end(), std::greater<>());
      serve(table_.rows()[std::get<4>(order_.back())]);
      order_.pop_back();
    }
    Decisions decisions = carry_out(table_, targets_);
    decisions.again_at = Seconds(next_s());
    return decisions;
  }

 private:
  // Priority, queue, whether it has not started, submit number, slot.
  using Key = std::tuple<int, int, bool, std::uint64_t, std::size_t>;

  bool is_in_first_queue(const JobRow& row) const {
    return table_.attained(row) < kQueueEnd - kRounding;
  }

  // Device-seconds since it was given what it holds.
  double attained_since_start(const JobRow& row) const {
    return row.held_total * (table_.now_s() - row.changed_s);
  }

  // A job that waits is promoted by what it has waited until now; one that runs was promoted by
  // what it had waited when it began, and has not used up what that gives it. If its wait counted
  // while it runs, it would be demoted as soon as it begins, and promoted again when it is
  // suspended.
  bool is_promoted(const JobRow& row) const {
    const bool runs = row.held_total > 0;
    const double attained = runs ? attained_since_start(row) : 0;
    const double ran_s = std::max(0.0, table_.attained(row) - attained) / row.max_devices;
    const double waited_s = (runs ? row.changed_s : table_.now_s()) - row.submit_s - ran_s;
    return waited_s >= kPromoteKnob * ran_s && attained < kQueueEnd - kRounding;
  }

  int queue_of(const JobRow& row) const {
    return is_in_first_queue(row) || is_promoted(row) ? 1 : 2;
  }

  // Device-seconds until a running job leaves queue 1.
  double left_in_first_queue(const JobRow& row) const {
    return kQueueEnd - (is_promoted(row) ? attained_since_start(row) : table_.attained(row));
  }

  Key key_of(const JobRow& row) const {
    return {-row.priority, queue_of(row), !row.started, row.number, row.slot};
  }

  void set_fixed() {
    std::sort(order_.begin(), order_.end());
    std::vector<std::size_t> slots;
    for (const Key& key : order_) slots.push_back(std::get<4>(key));
    set_fixed_targets(table_, slots, targets_);
    // Jobs with an assured minimum may exchange it for their gang.
    for (const std::size_t slot : slots) assured_ += total(targets_.of(slot));
  }

  void serve(const JobRow& row) {
    if (row.pinned) return;
    Counts left = targets_.left();
    for (std::size_t t = 0; t < left.size(); ++t) left[t] += targets_.of(row.slot)[t];
    const auto held = table_.held(row.slot);
    const Counts present(held.begin(), held.end());
    const std::vector<Counts> gangs = gangs_of(table_, row);
    // A running job stays on its type if it can.
    const bool runs = std::find(gangs.begin(), gangs.end(), present) != gangs.end();
    if (runs && covers(left, present)) {
      targets_.set(row.slot, present);
    } else {
      const auto fits = std::find_if(gangs.begin(), gangs.end(),
                                     [&](const Counts& gang) { return covers(left, gang); });
      if (fits != gangs.end()) targets_.set(row.slot, *fits);
    }
    targets_.rank(row.slot);
  }

  // When the next running job leaves queue 1, or one that waits may be promoted.
  double next_s() const {
    double next = kNeverS;
    bool waits = false;
    for (const JobRow& row : table_.rows()) {
      if (!row.present || row.pinned) continue;
      waits = waits || row.held_total == 0;
      if (row.held_total > 0 && queue_of(row) == 1)
        next = std::min(next, table_.now_s() + left_in_first_queue(row) / row.held_total);
    }
    if (waits) next = std::min(next, table_.now_s() + kLookAgainS);
    return next > table_.now_s() ? next : table_.now_s() + 1;
  }

  const ClusterTable& table_;
  Targets targets_;
  std::vector<Key> order_;
  std::uint32_t assured_ = 0;
};

}  // namespace

Decisions TiresiasPolicy::decide(const ClusterView& view) {
  table_.update(view);
  return TiresiasDecision(table_).run();
}

}  // namespace es::scheduler
