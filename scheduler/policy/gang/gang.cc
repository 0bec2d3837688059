#include "scheduler/policy/gang/gang.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "scheduler/policy/common/carry_out.h"
#include "scheduler/policy/common/choice.h"
#include "scheduler/policy/common/targets.h"
#include "scheduler/policy/gang/reservation.h"

namespace es::scheduler {
namespace {

// In device-seconds: 1 hour and 10 hours of one device.
constexpr double kQueueDeviceSeconds[] = {3600, 36000};

// The attained service at which the job leaves its queue; kNeverS in the last queue.
double queue_end(double attained) {
  for (const double end : kQueueDeviceSeconds)
    if (attained < end) return end;
  return kNeverS;
}

// One call of decide().
class GangDecision {
 public:
  GangDecision(const ClusterTable& table, const GangRules& rules)
      : table_(table), rules_(rules), targets_(table) {}

  Decisions run() {
    if (table_.has_queues() || has_fixed_targets(table_))
      serve_all(ordered());
    else
      serve_first();
    Decisions decisions = carry_out(table_, targets_);
    decisions.waits.insert(decisions.waits.end(), waits_.begin(), waits_.end());
    decisions.blocked_by = blocked_by_;
    if (rules_.order == GangRules::Order::kAttainedService)
      decisions.again_at = Seconds(next_queue_s());
    return decisions;
  }

 private:
  // A job that has lost a part of its minimum does not run.
  bool keeps_held(const JobRow& row) const {
    return !rules_.preempts && row.held_total >= row.min_devices;
  }

  GangKey key_of(const JobRow& row) const {
    if (rules_.order == GangRules::Order::kRemainingTime) return srtf_key(row);
    GangKey key{.priority_rank = -std::int64_t{row.priority}, .number = row.number};
    if (rules_.order == GangRules::Order::kAttainedService)
      key.end_s = queue_end(table_.attained(row));
    return key;
  }

  // A job that can use several types is ranked by its first gang also while it runs on another one.
  // Otherwise a job that loses a slow type would come earlier than before and take it back.
  GangKey srtf_key(const JobRow& row) const {
    const std::vector<Counts> gangs = gangs_of(table_, row);
    if (gangs.empty()) return gang_key(table_, row, Counts(table_.types(), 0));
    GangKey key = gang_key(table_, row, gangs.front());
    if (gangs.size() > 1 && row.steps_per_s > 0)
      key.end_s = table_.now_s() + table_.remaining(row) / speed_on(table_, row, gangs.front());
    return key;
  }

  struct KeyedSlot {
    std::size_t slot;
    std::pair<bool, GangKey> key;
    bool operator>(const KeyedSlot& o) const { return o.key < key; }
  };

  std::vector<KeyedSlot> keyed_slots() const {
    std::vector<KeyedSlot> keyed;
    for (const JobRow& row : table_.rows())
      // Without preemption the jobs that hold devices come first, because their devices cannot be
      // given to another job.
      if (row.present) keyed.push_back({row.slot, {!keeps_held(row), key_of(row)}});
    return keyed;
  }

  void serve_all(const std::vector<std::size_t>& order) {
    const std::vector<std::size_t> owners = find_owners(order);
    std::vector<std::size_t> owners_first = owners;
    std::ranges::copy_if(order, std::back_inserter(owners_first),
                         [&](std::size_t slot) { return !own_gangs_.contains(slot); });
    set_fixed_targets(table_, owners_first, targets_);
    for (const std::size_t slot : owners) serve_owner(table_.rows()[slot]);
    for (const std::size_t slot : order)
      // Later jobs get no target here, so none of those that wait is started.
      if (!served_.contains(slot) && !serve(table_.rows()[slot])) break;
  }

  // Gives a job what its queue is entitled to. If others keep that, the job has its turn among
  // those that borrow: it must take nothing else before jobs that run.
  void serve_owner(const JobRow& row) {
    const Counts& gang = own_gangs_.at(row.slot);
    const bool waits = !keeps_held(row);
    const bool one_runs = rules_.blocking == GangRules::Blocking::kSerial && blocked_by_;
    if (row.pinned || (waits && (one_runs || waiting_queues_.contains(row.queue)))) return;
    if (!covers(targets_.choices_of(row.slot), gang)) {
      // No later job of the queue overtakes it.
      if (waits && rules_.blocking != GangRules::Blocking::kNone) waiting_queues_.insert(row.queue);
      return;
    }
    targets_.set(row.slot, gang);
    targets_.rank(row.slot);
    served_.insert(row.slot);
    if (rules_.blocking == GangRules::Blocking::kSerial && !blocked_by_) blocked_by_ = row.slot;
  }

  // The same for jobs without fixed targets, in time that is linear in the number of jobs: when no
  // device is left, the order of the jobs that wait does not matter.
  void serve_first() {
    std::vector<KeyedSlot> heap = keyed_slots();
    std::make_heap(heap.begin(), heap.end(), std::greater<>());
    while (!heap.empty() && total(targets_.left()) > 0) {
      std::pop_heap(heap.begin(), heap.end(), std::greater<>());
      if (!serve(table_.rows()[heap.back().slot])) break;
      heap.pop_back();
    }
  }

  std::vector<std::size_t> ordered() {
    std::vector<KeyedSlot> keyed = keyed_slots();
    std::sort(keyed.begin(), keyed.end(),
              [](const KeyedSlot& a, const KeyedSlot& b) { return a.key < b.key; });
    std::vector<std::size_t> slots;
    for (const KeyedSlot& entry : keyed) slots.push_back(entry.slot);
    return slots;
  }

  // The jobs whose queue is still entitled to enough devices, in this order.
  std::vector<std::size_t> find_owners(const std::vector<std::size_t>& slots) {
    if (!table_.has_queues()) return {};
    std::vector<Counts> owned = table_.entitled();
    std::vector<std::size_t> owners;
    const auto add = [&](std::size_t slot, std::span<const std::uint32_t> gang) {
      own_gangs_[slot].assign(gang.begin(), gang.end());
      owners.push_back(slot);
    };
    // Pinned jobs, and those that may not be suspended, have their devices already, wherever they
    // are in the order. Otherwise other jobs of the queue would be given its part, and these would
    // have that of another queue.
    const auto runs_on = [](const JobRow& row) {
      return row.pinned || (keeps_minimum(row) && row.held_total >= row.min_devices);
    };
    for (const std::size_t slot : slots) {
      const JobRow& row = table_.rows()[slot];
      if (!row.pinned && !keeps_minimum(row)) continue;
      Counts& rest = owned[row.queue];
      const auto wanted = row.pinned ? table_.pinned(slot) : table_.held(slot);
      const auto kept = row.pinned ? table_.kept_by_pin(slot) : table_.held(slot);
      if (runs_on(row) && covers(rest, wanted)) add(slot, wanted);
      for (std::size_t t = 0; t < rest.size(); ++t) rest[t] -= std::min(rest[t], kept[t]);
    }
    const auto charge = [&](const JobRow& row, std::span<const std::uint32_t> counts) {
      Counts& rest = owned[row.queue];
      for (std::size_t t = 0; t < rest.size(); ++t) rest[t] -= std::min(rest[t], counts[t]);
    };
    // What a job keeps beyond the part of its queue uses up that part too: a later job of the queue
    // takes nothing from it. Jobs that run within the part come first, because they have begun
    // within it: otherwise the others would take it from them when they begin.
    std::vector<std::size_t> beyond;
    for (const std::size_t slot : slots) {
      const JobRow& row = table_.rows()[slot];
      if (runs_on(row) || !keeps_held(row)) continue;
      const auto held = table_.held(slot);
      if (total(held) == 0 || !covers(owned[row.queue], held)) {
        beyond.push_back(slot);
        continue;
      }
      add(slot, held);
      charge(row, held);
    }
    for (const std::size_t slot : beyond) charge(table_.rows()[slot], table_.held(slot));
    for (const std::size_t slot : slots) {
      const JobRow& row = table_.rows()[slot];
      if (runs_on(row) || keeps_held(row)) continue;
      Counts rest = owned[row.queue];
      // What a job keeps of its minimum is charged already.
      const auto kept = table_.held(slot);
      for (std::size_t t = 0; keeps_minimum(row) && t < rest.size(); ++t) rest[t] += kept[t];
      const Counts wanted = wants(row, rest);
      if (total(wanted) == 0 || !covers(rest, wanted)) continue;
      add(slot, wanted);
      for (std::size_t t = 0; t < rest.size(); ++t) rest[t] -= wanted[t];
      owned[row.queue] = std::move(rest);
    }
    return owners;
  }

  // What the job holds, if it may keep that or it is a gang that is left; otherwise the first gang
  // that is left, if possible one that delays no reservation, or the first one of all if none is.
  Counts wants(const JobRow& row, const Counts& left) const {
    const auto held = table_.held(row.slot);
    const Counts present(held.begin(), held.end());
    if (keeps_held(row)) return present;
    const std::vector<Counts> gangs = gangs_of(table_, row);
    if (gangs.empty()) return Counts(table_.types(), 0);
    const bool runs = std::find(gangs.begin(), gangs.end(), present) != gangs.end();
    if (runs && covers(left, present)) return present;
    const auto is_left = [&](const Counts& gang) { return covers(left, gang); };
    for (const Counts& gang : gangs)
      if (is_left(gang) && delays_nothing(row, gang)) return gang;
    const auto first = std::ranges::find_if(gangs, is_left);
    return first != gangs.end() ? *first : gangs.front();
  }

  // Whether the job may start beside the reservation for an earlier one.
  bool delays_nothing(const JobRow& row, const Counts& gang) const {
    return !reserved_ || keeps_held(row) || reserved_->allows(gang, end_on(row, gang));
  }

  // When the job is expected to end on these devices if it has them from now on.
  double end_on(const JobRow& row, std::span<const std::uint32_t> devices) const {
    const bool holds_them = std::ranges::equal(table_.held(row.slot), devices);
    // A running job may exceed what was expected of it.
    if (holds_them && row.end_s < kNeverS) return std::max(table_.now_s(), row.end_s);
    const double speed = speed_on(table_, row, devices);
    if (speed <= 0) return kNeverS;
    const double from_s =
        holds_them ? std::max(table_.now_s(), row.paused_until_s) : table_.now_s() + row.pause_s;
    return from_s + table_.remaining(row) / speed;
  }

  // Reserves devices for the first job that must wait, at the end of jobs that run or start now.
  void reserve_for(const JobRow& waiting) {
    std::vector<Release> releases;
    for (const JobRow& row : table_.rows()) {
      if (!row.present) continue;
      const bool is_served = !targets_.is_empty(row.slot);
      // Pinned jobs without a target keep what they hold.
      if (!is_served && !(row.pinned && row.held_total > 0)) continue;
      const auto devices = is_served ? targets_.of(row.slot) : table_.held(row.slot);
      if (const double end_s = end_on(row, devices); end_s < kNeverS)
        releases.push_back({end_s, devices});
    }
    reserved_ = earliest_reservation(gangs_of(table_, waiting), targets_.left(), releases);
    reserved_for_ = waiting.slot;
  }

  // Serves one job. Returns false if all later jobs must wait.
  bool serve(const JobRow& row) {
    if (row.pinned) return true;
    const bool is_blocked = rules_.blocking != GangRules::Blocking::kNone &&
                            full_queues_.contains(row.queue) && !keeps_held(row);
    if (is_blocked) {
      waits_.push_back(
          {.slot = row.slot, .rule = WaitRule::kOrder, .after = full_queues_.at(row.queue)});
      return true;
    }
    if (blocked_by_ && !keeps_held(row)) return false;
    const Counts left = targets_.choices_of(row.slot);
    const Counts gang = wants(row, left);
    // It can run on nothing that exists now, so it blocks no other job.
    if (total(gang) == 0) return true;
    const bool is_left = covers(left, gang);
    const bool fits = is_left && delays_nothing(row, gang);
    if (fits && reserved_ && !keeps_held(row)) reserved_->charge(gang, end_on(row, gang));
    if (fits) targets_.set(row.slot, gang);
    targets_.rank(row.slot);
    // A job that only the limit of its queue stops blocks no other queue, but the later jobs of its
    // own.
    if (!is_left && covers(targets_.left(), gang)) {
      full_queues_.emplace(row.queue, row.slot);
      return true;
    }
    if (!fits && rules_.blocking == GangRules::Blocking::kReservation) {
      wait_for_reservation(row);
      return true;
    }
    const bool blocks = rules_.blocking == GangRules::Blocking::kSerial ||
                        (rules_.blocking == GangRules::Blocking::kHeadOfLine && !fits);
    if (blocks && !blocked_by_) blocked_by_ = row.slot;
    // The devices of a running job are called back: no job that waits overtakes it, but the others
    // that run go on.
    const bool is_called_back =
        rules_.blocking == GangRules::Blocking::kHeadOfLine && keeps_held(row);
    return fits || is_called_back || rules_.blocking == GangRules::Blocking::kNone;
  }

  // The first job that must wait has a reservation, and later ones wait for it.
  void wait_for_reservation(const JobRow& row) {
    if (!reserved_ && !keeps_held(row)) reserve_for(row);
    if (reserved_ && row.slot != reserved_for_)
      waits_.push_back({.slot = row.slot,
                        .rule = WaitRule::kKept,
                        .until = Seconds(reserved_->from_s),
                        .after = reserved_for_});
  }

  // The time at which the next running job leaves its queue.
  double next_queue_s() const {
    double next = kNeverS;
    for (const JobRow& row : table_.rows()) {
      const double attained = table_.attained(row);
      if (row.held_total > 0)
        next = std::min(next, table_.now_s() + (queue_end(attained) - attained) / row.held_total);
    }
    // Rounding can make the next time equal to the present one. The policy may only name a later
    // time.
    return next > table_.now_s() ? next : table_.now_s() + 1;
  }

  const ClusterTable& table_;
  const GangRules& rules_;
  Targets targets_;
  std::map<std::size_t, Counts> own_gangs_;  // by slot, of jobs within the part of their queue
  std::set<std::size_t> served_;             // slots of owners that have their gang
  std::set<std::uint32_t> waiting_queues_;   // an owner of them waits
  // A job waits for room below the limit of the queue: its slot.
  std::map<std::uint32_t, std::size_t> full_queues_;
  std::optional<std::size_t> blocked_by_;  // the slot of the first job that blocks all later ones
  std::optional<Reservation> reserved_;
  std::size_t reserved_for_ = 0;  // a slot; meaningful if there is a reservation
  std::vector<Wait> waits_;
};

}  // namespace

Decisions GangPolicy::decide(const ClusterView& view) {
  table_.update(view);
  if (has_queue_) {
    queue_.update(table_);
    if (!table_.has_queues() && !queue_.has_others()) return queue_.decide(table_);
  }
  return GangDecision(table_, rules_).run();
}

}  // namespace es::scheduler
