#include "scheduler/policy/rivals/gavel.h"

#include <algorithm>
#include <tuple>

#include "scheduler/policy/common/choice.h"
#include "scheduler/policy/common/rounds.h"
#include "scheduler/policy/rivals/gavel_shares.h"

namespace es::scheduler {
namespace {

constexpr double kGavelRoundS = 360;

// One call of decide().
class GavelDecision {
 public:
  GavelDecision(const ClusterTable& table, GavelPolicy::Objective objective)
      : table_(table),
        objective_(objective),
        order_(by_priority(table)),
        rounds_(table, kGavelRoundS, order_),
        served_(table.rows().size(), false) {}

  Decisions run() {
    if (rounds_.is_open()) run_pairs();
    fill_idle();
    return rounds_.finish();
  }

 private:
  // Pairs of a job and a type, in the order in which they run.
  struct Pair {
    std::tuple<int, double, double, std::uint64_t, std::size_t> key;
    std::size_t slot;
    Counts gang;
  };

  void run_pairs() {
    std::vector<std::size_t> slots;
    std::vector<GavelJob> jobs;
    std::vector<std::vector<Counts>> gangs;
    for (const std::size_t slot : order_) {
      const JobRow& row = table_.rows()[slot];
      // Jobs that keep their devices are in the program too: they have a right to their shares.
      if (row.pinned) continue;
      gangs.push_back(gangs_of(table_, row));
      slots.push_back(slot);
      jobs.push_back(job_of(row, gangs.back()));
    }
    const TimeShares shares = objective_ == GavelPolicy::Objective::kLeastAttained
                                  ? least_attained_shares(jobs, table_.total())
                                  : finish_time_shares(jobs, table_.total());
    std::vector<Pair> pairs;
    for (std::size_t m = 0; m < slots.size(); ++m)
      for (const Counts& gang : gangs[m]) {
        const std::size_t t = type_of(gang);
        const double share = shares[m * table_.types() + t];
        if (share > kLeastShare) pairs.push_back(pair_of(table_.rows()[slots[m]], gang, t, share));
      }
    std::sort(pairs.begin(), pairs.end(),
              [](const Pair& a, const Pair& b) { return a.key < b.key; });
    for (const Pair& pair : pairs) serve(table_.rows()[pair.slot], pair.gang);
  }

  GavelJob job_of(const JobRow& row, const std::vector<Counts>& gangs) const {
    GavelJob job{.speeds = std::vector<double>(table_.types(), 0),
                 .gangs = Counts(table_.types(), 0),
                 .remaining_steps = table_.remaining(row),
                 .age_s = table_.now_s() - row.submit_s};
    double cluster_speed = 0, best = 0;
    for (const Counts& gang : gangs) {
      const std::size_t t = type_of(gang);
      job.speeds[t] = speed_on(table_, row, gang);
      job.gangs[t] = gang[t];
      best = std::max(best, job.speeds[t]);
      cluster_speed += job.speeds[t] * table_.total()[t] / gang[t];
    }
    const auto jobs = static_cast<double>(order_.size());
    const double isolated_speed = std::max(1e-12, std::min(best, cluster_speed / jobs));
    job.isolated_s = std::max(1e-9, table_.done(row) + job.remaining_steps) / isolated_speed;
    return job;
  }

  static std::size_t type_of(const Counts& gang) {
    std::size_t t = 0;
    while (gang[t] == 0) ++t;
    return t;
  }

  Pair pair_of(const JobRow& row, const Counts& gang, std::size_t t, double share) const {
    const double age_s = std::max(1.0, table_.now_s() - row.submit_s);
    const double part = table_.attained_on(row, t) / gang[t] / age_s;
    // Smaller keys come first. A pair that has never run has the rank -infinity.
    const double rank = part > 0 ? -share / part : -kNeverS;
    return {{-row.priority, rank, -share, row.number, t}, row.slot, gang};
  }

  bool serve(const JobRow& row, const Counts& gang) {
    if (!rounds_.can_give(row) || served_[row.slot] || !rounds_.give(row, gang)) return false;
    served_[row.slot] = true;
    return true;
  }

  void fill_idle() {
    if (!rounds_.is_anything_left()) return;
    std::vector<std::size_t> waiting;
    for (const std::size_t slot : order_)
      if (rounds_.can_give(table_.rows()[slot]) && !served_[slot]) waiting.push_back(slot);
    sort_by_share(table_, waiting);
    for (const std::size_t slot : waiting) {
      if (!rounds_.is_anything_left()) return;
      for (const Counts& gang : gangs_of(table_, table_.rows()[slot]))
        if (serve(table_.rows()[slot], gang)) break;
    }
  }

  static constexpr double kLeastShare = 1e-9;
  const ClusterTable& table_;
  const GavelPolicy::Objective objective_;
  const std::vector<std::size_t> order_;
  Rounds rounds_;
  std::vector<bool> served_;  // by slot
};

}  // namespace

Decisions GavelPolicy::decide(const ClusterView& view) {
  table_.update(view);
  return GavelDecision(table_, objective_).run();
}

}  // namespace es::scheduler
