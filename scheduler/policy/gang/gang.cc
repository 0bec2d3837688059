#include "scheduler/policy/gang/gang.h"

#include <algorithm>
#include <utility>

#include "scheduler/policy/common/choice.h"
#include "scheduler/policy/common/targets.h"

namespace es::scheduler {
namespace {

using Row = Board::Row;

constexpr double kQueueDeviceSeconds[] = {3600, 36000};

// The attained service at which the job leaves its queue; kNever in the last queue.
double queue_end(double attained) {
  for (const double end : kQueueDeviceSeconds)
    if (attained < end) return end;
  return kNever;
}

bool covers(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b) {
  for (std::size_t t = 0; t < a.size(); ++t)
    if (a[t] < b[t]) return false;
  return true;
}

// One call of decide().
class Round {
 public:
  Round(const Board& board, const GangRules& rules)
      : board_(board), rules_(rules), targets_(board) {}

  Decisions run() {
    const std::vector<std::size_t> order = ordered();
    place_fixed(board_, order, targets_);
    for (const std::size_t slot : order)
      if (!place(board_.rows()[slot])) break;
    Decisions decisions = carry_out(board_, targets_);
    if (rules_.order == GangRules::Order::kAttainedService) decisions.again_s = next_queue_s();
    return decisions;
  }

 private:
  bool stays(const Row& row) const { return !rules_.preempts && row.held_total > 0; }

  GangPlace place_of(const Row& row) const {
    if (rules_.order == GangRules::Order::kRemainingTime)
      return gang_place(board_, row, gang_of(board_, row));
    GangPlace place{.priority_rank = -std::int64_t{row.priority}, .number = row.number};
    if (rules_.order == GangRules::Order::kAttainedService)
      place.end_s = queue_end(board_.attained(row));
    return place;
  }

  std::vector<std::size_t> ordered() const {
    struct Place {
      std::size_t slot;
      std::pair<bool, GangPlace> key;
    };
    std::vector<Place> places;
    for (const Row& row : board_.rows())
      if (row.present) places.push_back({row.slot, {!stays(row), place_of(row)}});
    std::sort(places.begin(), places.end(),
              [](const Place& a, const Place& b) { return a.key < b.key; });
    std::vector<std::size_t> slots;
    for (const Place& place : places) slots.push_back(place.slot);
    return owners_first(slots);
  }

  // Keeps the order, but puts jobs whose tenant still owns enough devices before those that borrow.
  std::vector<std::size_t> owners_first(const std::vector<std::size_t>& slots) const {
    if (!board_.has_quotas()) return slots;
    std::vector<Counts> owned;
    for (const Board::Tenant& tenant : board_.tenants()) owned.push_back(tenant.owned);
    std::vector<std::size_t> owners, borrowers;
    for (const std::size_t slot : slots) {
      const Row& row = board_.rows()[slot];
      Counts& rest = owned[row.tenant];
      const Counts wanted = wants(row);
      const bool own = covers(rest, wanted);
      for (std::size_t t = 0; own && t < rest.size(); ++t) rest[t] -= wanted[t];
      (own ? owners : borrowers).push_back(slot);
    }
    owners.insert(owners.end(), borrowers.begin(), borrowers.end());
    return owners;
  }

  Counts wants(const Row& row) const {
    const auto held = board_.held(row.slot);
    return stays(row) ? Counts(held.begin(), held.end()) : gang_of(board_, row);
  }

  // Places one job. Returns false if all later jobs must wait.
  bool place(const Row& row) {
    if (row.pinned) return true;
    const bool one_runs = rules_.blocking == GangRules::Blocking::kSerial && placed_;
    if (one_runs && !stays(row)) return false;
    const Counts gang = wants(row);
    Counts left = targets_.left();
    for (std::size_t t = 0; t < left.size(); ++t) left[t] += targets_.of(row.slot)[t];
    const bool fits = covers(left, gang);
    if (fits) targets_.set(row.slot, gang);
    targets_.rank(row.slot);
    placed_ = true;
    return fits || rules_.blocking == GangRules::Blocking::kNone;
  }

  // The time at which the next running job leaves its queue.
  double next_queue_s() const {
    double next = kNever;
    for (const Row& row : board_.rows()) {
      const double attained = board_.attained(row);
      if (row.held_total > 0)
        next = std::min(next, board_.now_s() + (queue_end(attained) - attained) / row.held_total);
    }
    return next > board_.now_s() ? next : board_.now_s() + 1;
  }

  const Board& board_;
  const GangRules& rules_;
  Targets targets_;
  bool placed_ = false;  // a job has been looked at
};

}  // namespace

Decisions GangPolicy::decide(const ClusterView& view) {
  board_.update(view);
  if (has_queue_) {
    queue_.update(board_);
    if (!board_.has_quotas() && !queue_.has_others()) return queue_.decide(board_);
  }
  return Round(board_, rules_).run();
}

}  // namespace es::scheduler
