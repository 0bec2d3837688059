#include "scheduler/policy/elastic_srtf/full_scan_decision.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "scheduler/policy/common/carry_out.h"
#include "scheduler/policy/common/speed.h"

namespace es::scheduler {
namespace {

// If every further device costs the same communication, a job is fastest with n devices of which
// one half computes, and with n / w devices the part 1 / (1 + 1 / w^2) of them computes. So jobs
// that would be fastest with w times the devices that exist fit into the cluster with this
// efficiency.
double efficiency_for(const ClusterLoad& load) {
  double widths = 0;
  for (const GroupLoad& group : load.groups) widths = std::max(widths, group.widths);
  if (widths <= 1) return 0;
  return std::min(kEfficient, 1 / (1 + 1 / (widths * widths)));
}

// The types that the jobs which can use no others need until the end of all jobs.
std::uint64_t scarce_types(const ClusterLoad& load) {
  std::uint64_t scarce = 0;
  for (const GroupLoad& group : load.groups)
    if (group.widths > 1 && group.backlog_s >= kScarcePart * load.horizon_s) scarce |= group.types;
  return scarce;
}

}  // namespace

std::vector<FullScanDecision::Wanted> FullScanDecision::wanted_types(const ClusterTable& table,
                                                                     const ClusterLoad& load) {
  std::vector<Wanted> wanted;
  for (const GroupLoad& group : load.groups) {
    double idle = 0;
    for (std::size_t t = 0; t < table.types(); ++t)
      if ((group.types & type_bit(t)) != 0) idle += table.free()[t] + table.returning()[t];
    if (group.waiting > idle)
      wanted.push_back({group.types, 1 + std::max(kWorthLeaving, group.waiting / group.devices)});
  }
  return wanted;
}

FullScanDecision::FullScanDecision(const ClusterTable& table, const ServiceOrder& order,
                                   DecisionMemory& memory)
    : table_(table),
      targets_(memory.targets),
      timely_(order_in_time(order, table.now_s())),
      order_(order),
      states_(memory.states),
      marked_(memory.marked),
      paused_devices_(table.types(), 0),
      scarce_(scarce_types(order.load())),
      wanted_(wanted_types(table, order.load())),
      communicating_(efficiency_for(order.load())),
      again_s_(order.load().again_s) {
  targets_.begin(table);
  for (std::size_t t = 0; t < table.types(); ++t)
    idle_.push_back(std::int64_t{table.free()[t]} + table.returning()[t]);
  // Only what the last decision marked is reset; the memory is shared by all decisions.
  for (const std::size_t slot : std::exchange(marked_, {})) states_[slot] = TargetState::kNone;
  states_.resize(table.rows().size(), TargetState::kNone);
}

Decisions FullScanDecision::run() {
  serve_fixed_jobs();
  keep_paused_jobs();
  // Before the common order, so that a queue gets what it is entitled to even if jobs of others
  // come first.
  if (table_.has_queues()) serve_owners();
  serve_in_order();
  if (table_.has_queues() || timely_.guaranteed_part > 0) serve_left_behind();
  if (targets_.order().empty() && table_.usable() == table_.free() && !nothing_left()) {
    // Nothing runs, and nothing would: no event would end a wait.
    leaves_nothing_ = true;
    leaving_.clear();
    waits_.clear();
    serve_in_order();
  }
  Decisions decisions = carry_out(table_, targets_, leaving_);
  decisions.waits.insert(decisions.waits.end(), waits_.begin(), waits_.end());
  // Pauses end and waiting jobs age without an event.
  decisions.again_at = Seconds(again_s_);
  return decisions;
}

void FullScanDecision::serve_fixed_jobs() {
  std::vector<std::size_t> slots;
  for (const QueueEntry& entry : order_.fixed()) {
    slots.push_back(entry.slot);
    mark(entry.slot, TargetState::kMinimum);
  }
  set_fixed_targets(table_, slots, targets_);
  for (const std::size_t slot : slots) {
    if (!table_.rows()[slot].pinned || targets_.is_empty(slot)) continue;
    for (std::size_t t = 0; t < idle_.size(); ++t)
      idle_[t] -= std::int64_t{targets_.of(slot)[t]} - table_.held(slot)[t];
  }
}

void FullScanDecision::keep_paused_jobs() {
  for (const QueueEntry& entry : order_.entries(0, order_.size()))
    if (entry.paused) keep_paused(entry);
}

void FullScanDecision::keep_paused(const QueueEntry& entry) {
  const auto held = table_.held(entry.slot);
  // A pinned job may have taken devices of a job in a pause. That job is then served in its turn
  // like any other.
  if (entry.pinned || !covers(choices_of(entry.slot), held)) return;
  targets_.set(entry.slot, held);
  mark(entry.slot, TargetState::kKept);
  add_paused_devices(held, table_.rows()[entry.slot].paused_until_s);
}

void FullScanDecision::add_paused_devices(std::span<const std::uint32_t> devices,
                                          double paused_until_s) {
  for (std::size_t t = 0; t < devices.size(); ++t) paused_devices_[t] += devices[t];
  // At least one second from now, so that the policy does not ask again in a loop at one time.
  pauses_end_s_ = std::min(pauses_end_s_, std::max(table_.now_s() + 1, paused_until_s));
  again_s_ = std::min(again_s_, pauses_end_s_);
}

void FullScanDecision::serve_owners() {
  std::vector<Counts> owned = table_.entitled();
  const std::vector<QueueEntry> entries = all_entries();
  const auto has_its_devices = [this](const QueueEntry& entry) {
    return table_.rows()[entry.slot].pinned || is_kept(entry);
  };
  // Pinned jobs, jobs in a pause and the minima of jobs that may not be suspended use the part of
  // their queue first, because they have these devices already, wherever they are in the order.
  // Otherwise other jobs of the queue would be given its part, and these the one of another queue.
  for (const QueueEntry& entry : entries)
    if (has_its_devices(entry) || entry.keeps_minimum) use_up(owned, entry.slot);
  for (const QueueEntry& entry : entries) {
    if (has_its_devices(entry)) continue;
    const JobRow& row = table_.rows()[entry.slot];
    const Counts& rest = owned[row.queue];
    const Counts minimum(targets_.of(entry.slot).begin(), targets_.of(entry.slot).end());
    Counts left = choices_of(entry.slot);
    // At most what its queue is entitled to and earlier jobs of the queue have not taken.
    for (std::size_t t = 0; t < left.size(); ++t) left[t] = std::min(rest[t] + minimum[t], left[t]);
    assign(entry.slot, choose(row, left, limits_of(entry)).counts);
    use_up(owned, entry.slot, minimum);
  }
}

void FullScanDecision::serve_left_behind() {
  for (const QueueEntry& entry : all_entries()) {
    if (nothing_left()) return;
    if (entry.holds || !has_no_target(entry.slot)) continue;
    // A job that waits by a rule may have reserved devices already.
    if (std::ranges::find(waits_, entry.slot, &Wait::slot) == waits_.end()) serve_turn(entry);
  }
}

void FullScanDecision::use_up(std::vector<Counts>& owned, std::size_t slot,
                              std::span<const std::uint32_t> used) const {
  const JobRow& row = table_.rows()[slot];
  Counts& rest = owned[row.queue];
  // A pinned job has a target only if it lacks devices and gets them now.
  const auto has =
      row.pinned && targets_.is_empty(slot) ? table_.kept_by_pin(slot) : targets_.of(slot);
  for (std::size_t t = 0; t < rest.size(); ++t) {
    const std::uint32_t before = used.empty() ? 0 : std::min(used[t], has[t]);
    rest[t] -= std::min(rest[t], has[t] - before);
  }
}

void FullScanDecision::serve_in_order() {
  const std::vector<QueueEntry> entries = order_.entries(0, timely_.end);
  const std::size_t position = guarantee_position();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i == position) serve_guaranteed();
    serve_turn(entries[i]);
  }
  // The loop above ends before this position.
  if (position == timely_.end) serve_guaranteed();
  for (const QueueEntry& entry : timely_.moved) serve_turn(entry);
}

// A job that holds devices and may have to give up all of them is added to leaving_; a job whose
// target may differ from what it holds is ranked.
void FullScanDecision::serve_turn(const QueueEntry& entry) {
  if (entry.pinned || is_kept(entry)) return;
  // The lines below apply also if nothing is left, because the job may have to give up what it
  // holds.
  if (!nothing_left()) serve(entry);
  if (is_kept(entry)) return;
  if (!has_no_target(entry.slot)) targets_.rank(entry.slot);
  if (entry.holds) leaving_.push_back(entry.slot);
}

void FullScanDecision::serve(const QueueEntry& entry) {
  const JobRow& row = table_.rows()[entry.slot];
  Counts left = choices_of(entry.slot);
  const bool leaves_scarce = leave_scarce(entry, left), leaves_slow = leave_slow(entry, left);
  const auto held = table_.held(entry.slot);
  // best_choice() would return the same, at a higher cost.
  if (entry.at_optimum && covers(left, held)) return assign(entry.slot, held);
  const Choice choice = choice_of(entry, left);
  if (choice.counts.empty()) {
    if (leaves_scarce || leaves_slow)
      waits_.push_back(
          {.slot = entry.slot, .rule = leaves_slow ? WaitRule::kSlowType : WaitRule::kScarce});
    return reserve_until_pauses_end(entry, left);
  }
  // What is late, or has a deadline in danger, comes first at any cost.
  const bool pays = std::max(row.rescale_s, row.suspend_s) > 0 &&
                    entry.service_class() >= ServiceClass::kCritical;
  if (pays) return serve_at_a_charge(entry, left, choice);
  assign(entry.slot, choice.counts);
}

// best_choice(), after which the policy is asked again in time.
Choice FullScanDecision::choose(const JobRow& row, const Counts& left, const ChoiceLimits& limits) {
  Choice choice = best_choice(table_, row, left, limits);
  again_s_ = std::min(again_s_, choice.again_s);
  return choice;
}

Choice FullScanDecision::choice_of(const QueueEntry& entry, Counts& left) {
  const JobRow& row = table_.rows()[entry.slot];
  const ChoiceLimits limits = limits_of(entry);
  Choice choice = choose(row, left, limits);
  if (wanted_.empty() || !may_leave(entry)) return choice;
  const std::uint64_t types = order_.forecast(entry.slot).types;
  const auto held = table_.held(entry.slot);
  Counts others = left;
  double slower = 1;
  for (const Wanted& wanted : wanted_) {
    if ((types & ~wanted.types) == 0 || (types & wanted.types) == 0) continue;
    slower = std::max(slower, wanted.slower);
    for (std::size_t t = 0; t < others.size(); ++t)
      if ((wanted.types & type_bit(t)) != 0) others[t] = std::min(others[t], held[t]);
  }
  if (others == left) return choice;
  Choice other = choose(row, others, limits);
  if (other.counts.empty() || other.finish_s > slower * choice.finish_s) return choice;
  left = std::move(others);
  return other;
}

bool FullScanDecision::leave_slow(const QueueEntry& entry, Counts& left) const {
  const JobRow& row = table_.rows()[entry.slot];
  if (leaves_nothing_ || row.mix_types || row.started || row.held_total > 0) return false;
  const auto speeds = table_.capabilities(entry.slot);
  // With the best devices of each type that its queue may have and that are in use.
  std::vector<double> best(left.size(), 0);
  for (std::size_t t = 0; t < left.size(); ++t) {
    const std::uint32_t n = std::min(table_.reach(row, t), row.max_devices);
    if (n > 0 && speeds[t] > 0)
      best[t] = one_type_speed(row.max_p, n, speeds[t], table_.sync(entry.slot));
  }
  const double limit_s = slow_limit_s(row, *std::ranges::max_element(best));
  bool leaves = false;
  for (std::size_t t = 0; t < left.size(); ++t) {
    if (left[t] == 0 || best[t] <= 0 || table_.remaining(row) <= best[t] * limit_s) continue;
    left[t] = 0;
    leaves = true;
  }
  return leaves;
}

double FullScanDecision::slow_limit_s(const JobRow& row, double best_speed) const {
  return std::max(order_.load().horizon_s, kSlowType * table_.remaining(row) / best_speed);
}

bool FullScanDecision::leave_scarce(const QueueEntry& entry, Counts& left) const {
  const std::uint64_t others = order_.forecast(entry.slot).types & ~scarce_;
  if (leaves_nothing_ || entry.service_class() != ServiceClass::kOrdinary || others == 0)
    return false;
  const auto held = table_.held(entry.slot);
  bool leaves = false;
  for (std::size_t t = 0; t < left.size(); ++t) {
    if ((scarce_ & type_bit(t)) == 0 || left[t] <= held[t]) continue;
    left[t] = held[t];
    leaves = true;
  }
  return leaves;
}

ChoiceLimits FullScanDecision::limits_of(const QueueEntry& entry) const {
  return {efficiency_of(entry), (1 + kMakespanSlack) * order_.load().horizon_s};
}

double FullScanDecision::efficiency_of(const QueueEntry& entry) const {
  if (table_.sync(entry.slot).empty()) return kEfficient;
  if (entry.service_class() != ServiceClass::kOrdinary) return kHalfComputes;
  // With this part of its best speed it would end too late.
  const double part =
      communicating_ > 0.5 ? 2 * std::sqrt(communicating_ * (1 - communicating_)) : 1;
  const double alone_s = order_.forecast(entry.slot).alone_at(table_.now_s());
  return alone_s >= part * order_.load().horizon_s ? kHalfComputes : communicating_;
}

void FullScanDecision::serve_at_a_charge(const QueueEntry& entry, const Counts& left,
                                         const Choice& choice) {
  const JobRow& row = table_.rows()[entry.slot];
  const Counts idle = idle_choices_of(entry.slot, left);
  if (covers(idle, choice.counts)) return assign(entry.slot, choice.counts);
  const double pause_s = taking_pause_s(row, choice.counts, idle);
  const double charge_s = kPausesToTake * pause_s;
  const Choice without = choose(row, idle, limits_of(entry));
  if (!without.counts.empty())
    return assign(entry.slot,
                  without.finish_s <= choice.finish_s + charge_s ? without.counts : choice.counts);
  const auto end = end_to_count_on(row, kPausesToWait * pause_s);
  if (!end) return assign(entry.slot, choice.counts);
  // What is idle now is not enough for it, and is reserved until there is more.
  Counts reserved = choice.counts;
  for (std::size_t t = 0; t < reserved.size(); ++t) {
    reserved[t] = std::min(reserved[t], idle[t]);
    idle_[t] -= reserved[t];
  }
  targets_.reserve(reserved);
  waits_.push_back({.slot = entry.slot,
                    .rule = WaitRule::kEnd,
                    .keeps = table_.to_set(reserved),
                    .until = Seconds(end->first),
                    .after = end->second});
}

double FullScanDecision::taking_pause_s(const JobRow& row, const Counts& wanted,
                                        const Counts& idle) const {
  double pause_s = row.rescale_s;
  order_.visit_last([&](const QueueEntry& entry) {
    if (entry.slot == row.slot) return true;
    const auto held = table_.held(entry.slot);
    std::uint32_t taken = 0;
    for (std::size_t t = 0; t < held.size(); ++t)
      taken += std::min(held[t], wanted[t] - std::min(wanted[t], idle[t]));
    if (taken == 0) return true;
    const JobRow& loser = table_.rows()[entry.slot];
    const bool is_suspended = taken + loser.min_devices > loser.held_total;
    pause_s = std::max(pause_s, is_suspended ? loser.suspend_s : loser.rescale_s);
    return false;
  });
  return pause_s;
}

std::optional<std::pair<double, std::size_t>> FullScanDecision::end_to_count_on(const JobRow& row,
                                                                                double seconds) {
  const auto speeds = table_.capabilities(row.slot);
  for (const auto& [end_s, slot] : table_.ends()) {
    if (end_s > table_.now_s() + seconds) return {};
    const auto held = table_.held(slot);
    bool is_usable = false;
    for (std::size_t t = 0; t < held.size(); ++t)
      is_usable = is_usable || (held[t] > 0 && speeds[t] > 0);
    if (is_usable && counted_on_.insert(slot).second) return {{end_s, slot}};
  }
  return {};
}

Counts FullScanDecision::idle_choices_of(std::size_t slot, const Counts& left) const {
  const bool has_target = states_[slot] == TargetState::kTentative;
  const auto own = has_target ? targets_.of(slot) : table_.held(slot);
  Counts idle = left;
  for (std::size_t t = 0; t < idle.size(); ++t) {
    const std::int64_t most = std::max(std::int64_t{0}, idle_[t]) + own[t];
    idle[t] = static_cast<std::uint32_t>(std::min(std::int64_t{left[t]}, most));
  }
  return idle;
}

void FullScanDecision::reserve_until_pauses_end(const QueueEntry& entry, Counts left) {
  // What would be left if the pauses were over.
  for (std::size_t t = 0; t < left.size(); ++t) left[t] += paused_devices_[t];
  left = targets_.within_queue(entry.slot, std::move(left));
  leave_scarce(entry, left);
  leave_slow(entry, left);
  const Choice later = choose(table_.rows()[entry.slot], left, limits_of(entry));
  if (later.counts.empty()) return;
  Counts keeps = targets_.left();
  for (std::size_t t = 0; t < keeps.size(); ++t) keeps[t] = std::min(keeps[t], later.counts[t]);
  targets_.reserve(later.counts);
  waits_.push_back({.slot = entry.slot,
                    .rule = WaitRule::kPauses,
                    .keeps = table_.to_set(keeps),
                    .until = Seconds(pauses_end_s_)});
}

// Serves the guaranteed job with that useful number of devices which is nearest to the guaranteed
// part. A number between two useful ones would not be faster than the smaller one.
void FullScanDecision::serve_guaranteed() {
  if (timely_.guaranteed_part <= 0 || nothing_left()) return;
  const QueueEntry& entry = timely_.moved[timely_.guaranteed];
  JobRow part = table_.rows()[entry.slot];
  if (part.pinned || is_kept(entry)) return;
  const double wanted = timely_.guaranteed_part * part.max_devices;
  const std::uint32_t less =
      useful_devices(part.max_p, std::max(1U, static_cast<std::uint32_t>(wanted)));
  std::uint32_t more = less + 1;
  while (more < part.max_devices && useful_devices(part.max_p, more) < more) ++more;
  const std::uint32_t nearest = wanted < less + 0.6 * (more - less) ? less : more;
  part.max_devices = std::min(part.max_devices, std::max(part.min_devices, nearest));
  // The row is a copy with a smaller max_devices. When the turn of the job comes, it is served
  // again with the real one.
  Counts left = choices_of(entry.slot);
  leave_slow(entry, left);
  assign(entry.slot, choose(part, left, limits_of(entry)).counts);
}

std::size_t FullScanDecision::guarantee_position() const {
  return timely_.guaranteed_part > 0 ? first_movable(order_) : timely_.end;
}

bool FullScanDecision::is_kept(const QueueEntry& entry) const {
  return states_[entry.slot] == TargetState::kKept;
}

bool FullScanDecision::keep_held(const QueueEntry& entry) {
  if (!targets_.keep(table_, entry.slot)) return false;
  mark(entry.slot, TargetState::kKept);
  return true;
}

std::vector<QueueEntry> FullScanDecision::all_entries() const {
  std::vector<QueueEntry> entries = order_.entries(0, timely_.end);
  entries.insert(entries.end(), timely_.moved.begin(), timely_.moved.end());
  return entries;
}

Counts FullScanDecision::choices_of(std::size_t slot) const {
  return targets_.choices_of(slot);
}

void FullScanDecision::mark(std::size_t slot, TargetState state) {
  states_[slot] = state;
  marked_.push_back(slot);
}

// An empty choice leaves the job as it is.
void FullScanDecision::assign(std::size_t slot, std::span<const std::uint32_t> counts) {
  if (counts.empty()) return;
  const bool had_target = states_[slot] == TargetState::kTentative;
  const auto had = had_target ? targets_.of(slot) : table_.held(slot);
  for (std::size_t t = 0; t < counts.size(); ++t)
    idle_[t] += std::int64_t{had[t]} - std::int64_t{counts[t]};
  targets_.set(slot, counts);
  mark(slot, TargetState::kTentative);
}

}  // namespace es::scheduler
