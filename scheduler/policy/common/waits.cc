#include "scheduler/policy/common/waits.h"

#include <algorithm>

#include "scheduler/model/device_sets.h"
#include "scheduler/policy/common/choice.h"

namespace es::scheduler {
namespace {

// The jobs of a view, in which all grants of a decision are carried out.
class Waiting {
 public:
  Waiting(const ClusterView& view, const Decisions& decided, StartsWith starts_with)
      : view_(after(view, decided)), decided_(decided), starts_with_(starts_with) {
    table_.update(view_);
    use_ = QueueUse(table_.queues());
    for (const JobRow& row : table_.rows())
      if (row.held_total > 0) use_.add(row.queue, table_.held(row.slot));
    unkept_ = table_.free();
    unkept_use_ = use_;
    for (const Wait& wait : decided.waits) {
      Counts keeps(unkept_.size());
      for (std::size_t t = 0; t < keeps.size(); ++t) {
        keeps[t] = wait.keeps.count_of(table_.type_names()[t]);
        unkept_[t] -= std::min(unkept_[t], keeps[t]);
      }
      if (table_.has_queues()) unkept_use_.add(table_.rows()[wait.slot].queue, keeps);
    }
  }

  std::vector<WaitingJob> run() const {
    std::vector<WaitingJob> jobs;
    for (const JobRow& row : table_.rows())
      if (row.present && waits(row) && fits(row, table_.free(), use_, true))
        jobs.push_back({row.slot, why(row)});
    return jobs;
  }

 private:
  static ClusterView after(const ClusterView& view, const Decisions& decided) {
    ClusterView result = view;
    result.changed.reset();
    for (const Change& grant : decided.grants) {
      JobView& job = result.jobs[grant.slot];
      job.held = sum(job.held, grant.devices);
      result.free = beyond(result.free, grant.devices);
    }
    // What is called back counts as used by the queue until it is free.
    return result;
  }

  bool waits(const JobRow& row) const {
    // What it lacks when it has given these devices back is another decision.
    if (std::ranges::find(decided_.shrinks, row.slot, &Change::slot) != decided_.shrinks.end())
      return false;
    return row.pinned ? !covers(table_.held(row.slot), table_.pinned(row.slot))
                      : row.held_total < row.min_devices;
  }

  bool fits(const JobRow& row, const Counts& free, const QueueUse& use,
            bool with_unknown_speeds) const {
    const std::vector<DeviceType>& types = view_.jobs[row.slot].types;
    const auto held = table_.held(row.slot);
    Counts room(table_.types(), 0);
    for (std::size_t t = 0; t < room.size(); ++t) {
      const bool usable =
          row.pinned ||
          (with_unknown_speeds ? std::ranges::find(types, table_.type_names()[t]) != types.end()
                               : table_.capabilities(row.slot)[t] > 0);
      if (usable) room[t] = held[t] + std::min(free[t], use.room(row.queue, t));
    }
    if (row.pinned) return row.pin_exists && covers(room, table_.pinned(row.slot));
    if (starts_with_ == StartsWith::kGang) {
      const auto gangs = gangs_of(table_, row);
      return std::ranges::any_of(gangs, [&](const Counts& gang) { return covers(room, gang); });
    }
    if (starts_with_ == StartsWith::kMinimum && row.mix_types)
      return total(room) >= row.min_devices;
    for (std::size_t t = 0; t < room.size(); ++t)
      // It keeps what it holds, so all is of this type.
      if (held[t] == row.held_total && room[t] >= row.min_devices) return true;
    return false;
  }

  std::optional<Wait> why(const JobRow& row) const {
    const auto named = std::ranges::find(decided_.waits, row.slot, &Wait::slot);
    if (named != decided_.waits.end()) return *named;
    const std::optional<std::size_t> first = decided_.blocked_by;
    if (first && *first != row.slot)
      return Wait{.slot = row.slot, .rule = WaitRule::kOrder, .after = first};
    if (!fits(row, table_.free(), use_, false))
      return Wait{.slot = row.slot, .rule = WaitRule::kNoSpeed};
    if (fits(row, unkept_, unkept_use_, false)) return {};
    // The first one that keeps something which it could use.
    for (const Wait& wait : decided_.waits)
      for (std::size_t t = 0; t < table_.types(); ++t)
        if (table_.capabilities(row.slot)[t] > 0 || table_.pinned(row.slot)[t] > 0)
          if (wait.keeps.count_of(table_.type_names()[t]) > 0)
            return Wait{
                .slot = row.slot, .rule = WaitRule::kKept, .until = wait.until, .after = wait.slot};
    return {};
  }

  const ClusterView view_;
  const Decisions& decided_;
  const StartsWith starts_with_;
  ClusterTable table_;
  QueueUse use_, unkept_use_;
  Counts unkept_;  // free devices that are kept for no job
};

}  // namespace

std::vector<WaitingJob> waiting_beside_free(const ClusterView& view, const Decisions& decided,
                                            StartsWith starts_with) {
  return Waiting(view, decided, starts_with).run();
}

namespace {

// Whether a job has what it needs in order to run, or will have it.
bool anything_runs(const ClusterView& view, const Decisions& decided) {
  if (!decided.grants.empty() || !decided.shrinks.empty() || !view.returning.empty()) return true;
  return std::ranges::any_of(view.jobs, [](const JobView& job) {
    return !job.id.empty() && !job.held.empty() &&
           // A job that may not be suspended keeps what it holds also while it lacks some.
           (job.pinned || !job.may_suspend || job.held.total() >= job.min_devices);
  });
}

}  // namespace

Status check_idle(const ClusterView& view, const Decisions& decided, StartsWith starts_with) {
  const bool runs = anything_runs(view, decided);
  for (const WaitingJob& job : waiting_beside_free(view, decided, starts_with)) {
    const std::string text = "policy: job " + view.jobs[job.slot].id + " fits into the free \"" +
                             view.free.text() + "\" and waits";
    // Speeds arrive without a decision.
    const bool knows_speed = !job.why || job.why->rule != WaitRule::kNoSpeed;
    if (!runs && knows_speed) return failure(text + ", although no job runs");
    if (!job.why) return failure(text + " by no rule");
    // The other rules end with an event.
    if (job.why->rule == WaitRule::kPauses && job.why->until < decided.again_at)
      return failure(text + " until a time at which the policy is not asked");
  }
  return {};
}

}  // namespace es::scheduler
