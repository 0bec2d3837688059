#include "scheduler/policy/common/choice.h"

#include <algorithm>
#include <utility>

#include "scheduler/policy/common/speed.h"

namespace es::scheduler {
namespace {

using CountSpan = std::span<const std::uint32_t>;

// One call of best_choice().
class Chooser {
 public:
  Chooser(const ClusterTable& table, const JobRow& row, CountSpan left, const ChoiceLimits& limits)
      : table_(table),
        row_(row),
        left_(left),
        limits_(limits),
        held_(table.held(row.slot)),
        speeds_(table.capabilities(row.slot)),
        sync_(table.sync(row.slot)),
        remaining_(table.remaining(row)),
        efficiency_min_(limits.efficiency_min),
        candidate_(left.size(), 0) {}

  Choice run() {
    // A job that has lost a part of its minimum is granted exactly what it lacks (policy.h).
    if (row_.held_total == 0 || row_.held_total >= row_.min_devices) {
      // What it holds is tried first, so that of equal sets it wins.
      try_held();
      for (std::size_t t = 0; t < left_.size(); ++t) try_type(t);
      if (row_.mix_types) try_mix();
    }
    if (best_.counts.empty() && row_.held_total < row_.min_devices) try_least();
    best_.again_s = again_s_;
    return std::move(best_);
  }

 private:
  // A job that has not settled is only given what it lacks in order to run.
  bool may_grow() const { return row_.settled || row_.held_total < row_.min_devices; }

  void try_held() {
    if (row_.held_total < row_.min_devices) return;
    for (std::size_t t = 0; t < left_.size(); ++t) candidate_[t] = std::min(held_[t], left_[t]);
    consider();
  }

  void try_type(std::size_t t) {
    if (speeds_[t] <= 0 || left_[t] == 0) return;
    std::uint32_t n = std::min(left_[t], row_.max_devices);
    if (!may_grow()) n = std::min(n, held_[t]);
    // A job that keeps a device of the type may only grow by what it has proposed. With another
    // type it moves, and no proposal is needed.
    if (held_[t] > 0) n = std::min(n, held_[t] + table_.grantable(row_.slot)[t]);
    if (n == 0) return;
    std::fill(candidate_.begin(), candidate_.end(), 0);
    candidate_[t] = std::max(row_.min_devices, useful_devices(row_.max_p, n, speeds_[t], sync_));
    if (candidate_[t] > n) return;
    // If the efficiency of this number is too low, a smaller number is better than none.
    while (candidate_[t] > row_.min_devices && !is_efficient(t, candidate_[t]))
      candidate_[t] = std::max(row_.min_devices,
                               useful_devices(row_.max_p, candidate_[t] - 1, speeds_[t], sync_));
    consider();
  }

  // Whether this number of devices of one type is efficient enough.
  bool is_efficient(std::size_t t, std::uint32_t devices) const {
    if (sync_.empty()) return one_type_speed(row_.max_p, devices, 1) >= efficiency_min_ * devices;
    return one_type_speed(row_.max_p, devices, speeds_[t], sync_) >=
           efficiency_min_ * devices * speeds_[t];
  }

  void try_mix() {
    const auto grantable = table_.grantable(row_.slot);
    for (std::size_t t = 0; t < left_.size(); ++t) {
      std::uint32_t most = left_[t];
      if (row_.held_total > 0) most = std::min(most, held_[t] + (may_grow() ? grantable[t] : 0));
      candidate_[t] = speeds_[t] > 0 ? most : 0;
    }
    // If max_devices is max_p, the set that is trimmed below fits anyway: every device of it runs
    // at least one EST.
    if (row_.max_devices < row_.max_p) keep_fastest(row_.max_devices, candidate_, speeds_);
    double speed = mixed_speed(row_.max_p, candidate_, speeds_, sync_);
    if (speed <= 0) return;
    // More devices than needed for the speed would be of no use to this job, but may be of use to
    // others.
    trim_to_speed(row_.max_p, speed, candidate_, speeds_, sync_);
    // If communication makes this number inefficient, a smaller number is better than none.
    while (!sync_.empty() && speed < efficiency_min_ * capability() &&
           total(candidate_) > row_.min_devices) {
      keep_fastest(total(candidate_) - 1, candidate_, speeds_);
      speed = mixed_speed(row_.max_p, candidate_, speeds_, sync_);
      trim_to_speed(row_.max_p, speed, candidate_, speeds_, sync_);
    }
    if (total(candidate_) <= row_.max_devices) consider();
  }

  // The smallest sets that let the job run. They need no efficiency, because a job that nothing
  // smaller could serve would otherwise wait for ever, also beside devices that no job uses.
  void try_least() {
    const double needed = std::exchange(efficiency_min_, 0);
    for (std::size_t t = 0; t < left_.size(); ++t) {
      if (speeds_[t] <= 0 || left_[t] < row_.min_devices) continue;
      std::fill(candidate_.begin(), candidate_.end(), 0);
      candidate_[t] = row_.min_devices;
      consider();
    }
    if (row_.mix_types && best_.counts.empty()) {
      for (std::size_t t = 0; t < left_.size(); ++t) candidate_[t] = speeds_[t] > 0 ? left_[t] : 0;
      if (total(candidate_) >= row_.min_devices) {
        keep_fastest(row_.min_devices, candidate_, speeds_);
        consider();
      }
    }
    efficiency_min_ = needed;
  }

  double capability() const {
    double sum = 0;
    for (std::size_t t = 0; t < candidate_.size(); ++t) sum += candidate_[t] * speeds_[t];
    return sum;
  }

  // The job would give back devices that it refuses, so the set to which it falls back is
  // considered instead.
  void consider() {
    const auto is_held = [&] { return std::equal(held_.begin(), held_.end(), candidate_.begin()); };
    // Each fall-back has fewer devices than the set that it replaces, so the loop ends.
    while (!is_held()) {
      const Counts* fall_back = table_.fall_back_of(row_.slot, candidate_);
      if (fall_back == nullptr) break;
      candidate_ = *fall_back;
    }
    const bool kept = is_held();
    const std::uint32_t devices = total(candidate_);
    if (devices < row_.min_devices || devices == 0) return;
    // Both are computed with the same model. held_speed is stored because it does not change until
    // the row does.
    const double speed = kept ? row_.held_speed : speed_on(table_, row_, candidate_);
    if (speed <= 0) return;
    if (!kept && speed < efficiency_min_ * capability()) return;
    // A job that is in a pause would not step during it with other devices either.
    const double paused = std::max(0.0, row_.paused_until_s - table_.now_s());
    const double finish =
        remaining_ / speed + (kept ? paused : std::max(paused, kPausesToGain * row_.pause_s));
    const bool better = finish < best_.finish_s ||
                        (finish == best_.finish_s && devices < total(best_.counts) && !best_kept_);
    if (!better || (best_kept_ && !pays_before_next_change(speed))) return;
    best_ = {.counts = candidate_, .speed = speed, .finish_s = finish};
    best_kept_ = kept;
  }

  // Whether the job, which could keep what it holds, probably regains the pauses before its devices
  // change again, or has to change in order to end in time.
  bool pays_before_next_change(double speed) {
    if (row_.changes == 0 || remaining_ / row_.held_speed > limits_.in_time_s) return true;
    const double gain = 1 - row_.held_speed / speed;  // seconds in a second
    // The age at which the mean interval is long enough.
    const double age_s = kPausesInInterval * row_.pause_s * row_.changes / gain;
    const double pays_s = row_.submit_s + age_s;
    if (pays_s < table_.now_s()) return true;
    // At least one second from now, so that the policy does not ask again in a loop at one time.
    again_s_ = std::min(again_s_, std::max(table_.now_s() + 1, pays_s));
    return false;
  }

  const ClusterTable& table_;
  const JobRow& row_;
  const CountSpan left_;
  const ChoiceLimits& limits_;
  const CountSpan held_;
  const std::span<const double> speeds_;
  const SyncCurve& sync_;
  const double remaining_;
  double efficiency_min_;
  Counts candidate_;
  Choice best_;
  bool best_kept_ = false;
  double again_s_ = kNeverS;
};

}  // namespace

Choice best_choice(const ClusterTable& table, const JobRow& row, CountSpan left,
                   const ChoiceLimits& limits) {
  return Chooser(table, row, left, limits).run();
}

bool surely_keeps(const ClusterTable& table, const JobRow& row, CountSpan left) {
  if (row.held_total < row.min_devices || row.held_speed <= 0) return false;
  const auto held = table.held(row.slot);
  const auto speeds = table.capabilities(row.slot);
  // No set is faster than its devices together, and it has at most max_devices devices.
  double all = 0, fastest = 0, best = 0;
  for (std::size_t t = 0; t < left.size(); ++t) {
    // It cannot keep what is not left for it.
    if (held[t] > left[t]) return false;
    const double speed = std::min(left[t], row.max_devices) * speeds[t];
    all += speed;
    fastest = std::max(fastest, speed);
    if (left[t] > 0) best = std::max(best, row.max_devices * speeds[t]);
  }
  // Slightly raised, so that rounding never makes the bound smaller than a real speed. A bound that
  // is too high costs only a closer look.
  const double bound = (row.mix_types ? std::min(all, best) : fastest) * (1 + 1e-9);
  const double remaining = table.remaining(row);
  const double paused = std::max(0.0, row.paused_until_s - table.now_s());
  return remaining / bound + std::max(paused, kPausesToGain * row.pause_s) >=
         remaining / row.held_speed + paused;
}

bool surely_gets_nothing(const ClusterTable& table, const JobRow& row, CountSpan left) {
  // A job that holds something may at least keep it.
  if (row.held_total > 0) return false;
  const auto speeds = table.capabilities(row.slot);
  for (std::size_t t = 0; t < left.size(); ++t)
    if (left[t] > 0 && speeds[t] > 0) return false;
  return true;
}

namespace {

// max_devices, or as many as exist; fewer if the job is faster with fewer.
std::uint32_t gang_size(const ClusterTable& table, const JobRow& row, std::size_t t) {
  const std::uint32_t n = std::min(table.reach(row, t), row.max_devices);
  const SyncCurve& sync = table.sync(row.slot);
  const double speed = table.capabilities(row.slot)[t];
  if (n <= row.min_devices || sync.empty() || speed <= 0) return n;
  return std::max(row.min_devices, useful_devices(row.max_p, n, speed, sync));
}

}  // namespace

std::vector<Counts> gangs_of(const ClusterTable& table, const JobRow& row) {
  const auto speeds = table.capabilities(row.slot);
  if (row.held_total > 0 && row.held_total < row.min_devices) {
    // It has lost a part of its gang, and is granted exactly what it lacks (policy.h), or gives
    // back what it holds.
    std::vector<Counts> least;
    const auto held = table.held(row.slot);
    for (std::size_t t = 0; t < speeds.size(); ++t) {
      if (held[t] < row.held_total || speeds[t] <= 0 || table.reach(row, t) < row.min_devices)
        continue;
      least.emplace_back(table.types(), 0);
      least.back()[t] = row.min_devices;
    }
    return least;
  }
  std::vector<std::pair<double, std::size_t>> types;  // negative speed, so that they sort ascending
  for (std::size_t t = 0; t < speeds.size(); ++t) {
    if (speeds[t] <= 0 || gang_size(table, row, t) < row.min_devices) continue;
    const std::uint32_t n = gang_size(table, row, t);
    const bool asked = row.gang_type == static_cast<std::int32_t>(t);
    const double speed =
        // The type that its owner asked for wins against every speed.
        asked ? ClusterTable::kUnknownSteps
              : one_type_speed(row.max_p, n, speeds[t], table.sync(row.slot));
    types.emplace_back(-speed, t);
  }
  std::sort(types.begin(), types.end());
  std::vector<Counts> gangs;
  for (const auto& [speed, t] : types) {
    Counts counts(table.types(), 0);
    counts[t] = gang_size(table, row, t);
    // Ends, because each fall-back has fewer devices.
    while (const Counts* fall_back = table.fall_back_of(row.slot, counts)) counts = *fall_back;
    gangs.push_back(std::move(counts));
  }
  return gangs;
}

double speed_on(const ClusterTable& table, const JobRow& row, CountSpan counts) {
  const auto speeds = table.capabilities(row.slot);
  std::size_t used = 0, type = 0;
  for (std::size_t t = 0; t < counts.size(); ++t)
    if (counts[t] > 0 && speeds[t] > 0) ++used, type = t;
  if (used == 0) return 0;
  // The closed form gives the same as the search of mixed_speed(), at a constant cost.
  const SyncCurve& sync = table.sync(row.slot);
  if (used == 1) return one_type_speed(row.max_p, counts[type], speeds[type], sync);
  return mixed_speed(row.max_p, counts, speeds, sync);
}

}  // namespace es::scheduler
