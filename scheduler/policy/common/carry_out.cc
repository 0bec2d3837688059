#include "scheduler/policy/common/carry_out.h"

#include <algorithm>

namespace es::scheduler {
namespace {

// One call of carry_out().
class Transition {
 public:
  Transition(const ClusterTable& table, const Targets& targets)
      : table_(table),
        targets_(targets),
        free_(table.free()),
        missing_(table.types(), 0),
        called_back_(table.types(), 0),
        add_(table.types(), 0),
        drop_(table.types(), 0) {
    if (!table.has_queues()) return;
    use_ = QueueUse(table.queues());
    for (const JobRow& row : table.rows())
      if (row.held_total > 0) use_.add(row.queue, table.held(row.slot));
  }

  Decisions run(std::span<const std::size_t> leaving) {
    // More important jobs come first, so free devices go to them first.
    for (const std::size_t slot : targets_.order()) move(slot);
    for (const std::size_t slot : leaving)
      // After all grants. What leaving jobs give back is not free yet, so it cannot serve a grant
      // of this decision.
      if (targets_.is_empty(slot)) leave(slot);
    // The least important job first. What it gives back counts as called back, so that a more
    // important one may keep its devices.
    for (auto at = deferred_.rbegin(); at != deferred_.rend(); ++at) make_room(*at);
    return std::move(result_);
  }

 private:
  bool compare(std::size_t slot) {
    const auto held = table_.held(slot);
    const auto wanted = targets_.of(slot);
    for (std::size_t t = 0; t < held.size(); ++t) {
      add_[t] = wanted[t] > held[t] ? wanted[t] - held[t] : 0;
      drop_[t] = held[t] > wanted[t] ? held[t] - wanted[t] : 0;
    }
    return total(add_) + total(drop_) > 0;
  }

  void move(std::size_t slot) {
    if (targets_.is_empty(slot) || !compare(slot)) return;
    if (!may_change(table_.rows()[slot])) return wait(slot, WaitRule::kSettling);
    if (covers(free_, add_) && queue_allows(slot)) {
      for (std::size_t t = 0; t < add_.size(); ++t) free_[t] -= add_[t];
      if (table_.has_queues()) use_.add(table_.rows()[slot].queue, add_);
      if (total(add_) > 0) result_.grants.push_back({slot, table_.to_set(add_)});
      shrink(slot);
      return;
    }
    // `missing_` is copied before the needs of this job are added: the job makes room for more
    // important ones only.
    if (total(drop_) > 0) deferred_.push_back({slot, missing_});
    wait(slot, WaitRule::kReturning);
    for (std::size_t t = 0; t < add_.size(); ++t) {
      // Free devices are reserved for this job, although it cannot start with them yet. Otherwise
      // less important jobs would take them each time, and it would never start.
      const std::uint32_t kept = std::min(free_[t], add_[t]);
      free_[t] -= kept;
      // Within its limits the queue has room for the target of this job only after another job of
      // it has given up devices.
      missing_[t] += queue_allows(slot) ? add_[t] - kept : add_[t];
    }
  }

  // The job waits for the rest of what it shall have, and what is free of that is kept for it.
  void wait(std::size_t slot, WaitRule rule) {
    if (total(add_) == 0) return;
    Counts keeps(add_.size());
    for (std::size_t t = 0; t < keeps.size(); ++t) keeps[t] = std::min(free_[t], add_[t]);
    result_.waits.push_back({.slot = slot, .rule = rule, .keeps = table_.to_set(keeps)});
  }

  bool queue_allows(std::size_t slot) const {
    return !table_.has_queues() || use_.allows(table_.rows()[slot].queue, add_);
  }

  // The job gives back all that it holds.
  void leave(std::size_t slot) {
    // Neither is ever left without its devices by a policy (policy.h, rules `pinned` and
    // `suspend`).
    if (table_.rows()[slot].pinned || !table_.rows()[slot].may_suspend) return;
    compare(slot);
    shrink(slot);
  }

  // Whether add_ and drop_ keep the rules of policy.h. A change that does not is omitted from this
  // decision. It waits for returning devices or for a job to settle, and each of these causes
  // another decision.
  bool may_change(const JobRow& row) const {
    if (row.pinned) return true;
    const std::uint32_t kept = row.held_total - total(drop_);
    const std::uint32_t after = kept + total(add_);
    if (after < row.min_devices) return false;
    if (total(add_) == 0) return true;
    if (after > row.max_devices || (!row.mix_types && used_types(row.slot) > 1)) return false;
    // Rule `start`: below its minimum a job is granted exactly what it lacks, even if it has not
    // settled.
    if (row.held_total > 0 && row.held_total < row.min_devices) return after == row.min_devices;
    if (row.held_total > 0 && !row.settled) return false;
    // Rules `migrate` and `grow`: a job that keeps no device may get any, otherwise only what it
    // has proposed.
    return kept == 0 || covers(table_.grantable(row.slot), add_);
  }

  std::size_t used_types(std::size_t slot) const {
    const auto wanted = targets_.of(slot);
    return wanted.size() - static_cast<std::size_t>(std::count(wanted.begin(), wanted.end(), 0U));
  }

  void shrink(std::size_t slot) {
    if (total(drop_) == 0) return;
    for (std::size_t t = 0; t < drop_.size(); ++t) called_back_[t] += drop_[t];
    if (table_.has_queues()) use_.remove(table_.rows()[slot].queue, drop_);
    result_.shrinks.push_back({slot, table_.to_set(drop_)});
  }

  // A job that shall have other devices and waits for some of them.
  struct Deferred {
    std::size_t slot;
    Counts missing;  // what more important jobs wait for
  };

  // The job keeps its devices in the meantime, unless a more important job lacks them. So of two
  // jobs that want each other's devices the less important one releases its devices first.
  void make_room(const Deferred& deferred) {
    const std::size_t slot = deferred.slot;
    compare(slot);
    const JobRow& row = table_.rows()[slot];
    bool needed = false;
    for (std::size_t t = 0; t < drop_.size(); ++t)
      needed = needed || (drop_[t] > 0 && deferred.missing[t] > called_back_[t]);
    if (!needed) return;
    if (row.held_total - total(drop_) < row.min_devices) {
      if (!row.may_suspend) return;
      const auto held = table_.held(slot);
      // Less than its minimum is not allowed, so it gives back everything and waits.
      drop_.assign(held.begin(), held.end());
    }
    shrink(slot);
  }

  const ClusterTable& table_;
  const Targets& targets_;
  Counts free_;
  Counts missing_;      // devices that ranked jobs wait for, beyond the free ones
  Counts called_back_;  // devices called back by this decision
  QueueUse use_;        // of what jobs hold after the changes so far; empty without queues
  Counts add_, drop_;   // change of the job that is looked at
  std::vector<Deferred> deferred_;
  Decisions result_;
};

}  // namespace

Decisions carry_out(const ClusterTable& table, const Targets& targets) {
  std::vector<std::size_t> holders;
  for (const JobRow& row : table.rows())
    if (row.held_total > 0) holders.push_back(row.slot);
  return carry_out(table, targets, holders);
}

Decisions carry_out(const ClusterTable& table, const Targets& targets,
                    std::span<const std::size_t> leaving) {
  return Transition(table, targets).run(leaving);
}

}  // namespace es::scheduler
